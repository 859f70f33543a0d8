"""Provokes faults in real processes under a real Prometheus, and says which alerts fired.

In: the folder of programs, Prometheus, Cassandra's jars, a kubeconfig. Each fault has a cluster of its own, so that all are
provoked side by side and an alert tells by its labels which fault it is about. Out: a table, and exit status 1 if an alert
did not fire that had to, or one did that had no reason to.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

from monitoring_world import PATIENCE, World, cassandra, free_port, listens, until

ROOT = pathlib.Path(__file__).parents[2]
RULES = ROOT / "charts/readstates-operator/files/monitoring/rules.yaml"
# All times of the rules are divided by this, as if everything went that much faster; what is waited for before an alert
# fires is half a minute at most. Protocols (leases, takeovers) keep their own pace, so a smaller world it cannot be.
FASTER = 6
LONGEST_FOR = 30
SCRAPE = "2s"
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def faster(text):
    def seconds(number, unit):
        return int(number) * UNITS[unit] / FASTER

    text = re.sub(r"\[(\d+)([smhd])\]", lambda m: f"[{max(10, round(seconds(*m.groups())))}s]", text)
    return re.sub(r"\bfor: (\d+)([smhd])", lambda m: f"for: {max(4, round(min(seconds(*m.groups()), LONGEST_FOR)))}s", text)


class Faults:
    """A method for each: it makes a cluster, and returns what breaks it later. What has to fire, and what may beside it."""

    def __init__(self, world, arguments):
        self.world, self.arguments = world, arguments
        self.expected = {}

    def expect(self, cluster, must, may=()):
        self.expected[cluster] = (set(must), set(may))

    def trio(self, cluster, count=3, *flags):
        flags = flags or ("--store", "memory")
        members = [self.world.member(cluster, f"{cluster}-{n}", "--flush-interval", "5s", *flags) for n in range(count)]
        self.world.rebalance(cluster)
        self.world.load(members, 500, 0.02)
        return members

    def calm(self):
        """Nothing is wrong; a member is restarted in order."""
        self.expect("calm", [])
        members = self.trio("calm")

        def restart():
            members[1].stop()
            members[1].start()
            until("calm-1", lambda: members[1].said('"message":"serving"(?s:.*)"message":"serving"'))
            self.world.rebalance("calm")

        return restart

    def database(self):
        """The database stops answering, for every member."""
        beside = ["ReadstatesErrorBudgetBurnsFast", "ReadstatesErrorBudgetBurnsSlowly", "ReadstatesChangesSlow"]
        beside += ["ReadstatesFlushesFail", "ReadstatesStorePartsAway", "ReadstatesOverloaded", "ReadstatesLimitNearlyUsed"]
        self.expect("database", ["ReadstatesStoreAway", "ReadstatesWritesLate"], beside)
        options = ROOT / "hack/offline/cassandra"
        node, port = cassandra(self.world, self.arguments.jars, options)
        store = f"cql://127.0.0.1:{port}/readstates"
        schema = [self.world.programs / "readstates", "schema", "--store", store, "--replication", "datacenter1=1"]
        made = subprocess.run(schema, capture_output=True, text=True, timeout=PATIENCE, check=False)
        if made.returncode:
            raise SystemExit(f"readstates schema failed: {made.stderr}")
        self.trio("database", 2, "--store", store, "--cql-local-dc", "datacenter1")
        return lambda: node.send(signal.SIGSTOP)

    def ring(self):
        """The ring store is gone."""
        beside = ["ReadstatesLeaseLapsed", "ReadstatesHandoffStuck", "ReadstatesErrorBudgetBurnsFast", "ReadstatesErrorBudgetBurnsSlowly", "ReadstatesChangesSlow"]
        self.expect("ring", ["ReadstatesRingStoreFails"], beside)
        self.trio("ring", 2)
        folder = self.world.folder / "ring-ring"

        def away():
            folder.rename(folder.with_name("ring-away"))
            # A file in its place: nobody makes the folder anew.
            folder.write_text("")

        return away

    def killed(self):
        """A member ends without a word."""
        beside = ["ReadstatesErrorBudgetBurnsFast", "ReadstatesErrorBudgetBurnsSlowly", "ReadstatesSlotsWithoutOwner", "ReadstatesChangesSlow"]
        beside += ["ReadstatesRingDisagreement"]
        self.expect("killed", ["ReadstatesUpdatesMayBeLost", "ReadstatesMemberNotScraped"], beside)
        members = self.trio("killed")
        return lambda: members[2].stop(signal.SIGKILL)

    def disk(self):
        """The disk of an embedded store is full."""
        beside = ["ReadstatesStoreAway", "ReadstatesErrorBudgetBurnsFast", "ReadstatesErrorBudgetBurnsSlowly", "ReadstatesChangesSlow"]
        beside += ["ReadstatesChangesRefusedUnwritten", "ReadstatesStorePartsAway"]
        self.expect("disk", ["ReadstatesFlushesFail", "ReadstatesWritesLate"], beside)
        folder = self.world.folder / "disk"
        folder.mkdir()
        mount = 'mount -t tmpfs -o size=12m none "$0" && exec "$@"'
        before = ["unshare", "--mount", "--map-root-user", "sh", "-c", mount, folder]
        # Written behind: a journal would refuse changes before the store has any trouble.
        flags = ["--durability", "interval", "--flush-interval", "5s"]
        member = self.world.member("disk", "disk-0", "--store", f"embedded:{folder}/data", *flags, ring=False, before=before)
        self.world.load([member], 200, 0.05)

        def fill():
            # The mount is the member's own: seen through it.
            big = pathlib.Path(f"/proc/{member.child.pid}/root{folder}/ballast")
            with contextlib.suppress(OSError), big.open("wb", buffering=0) as out:
                while True:
                    out.write(bytes(1 << 16))

        return fill

    def overload(self):
        """More comes than is let in."""
        beside = ["ReadstatesErrorBudgetBurnsFast", "ReadstatesErrorBudgetBurnsSlowly", "ReadstatesLimitNearlyUsed", "ReadstatesChangesSlow"]
        self.expect("overload", ["ReadstatesOverloaded"], beside)
        member = self.world.member("overload", "overload-0", "--store", "memory", "--max-mentions", "1", ring=False)
        self.world.load([member], 50, 0.05)
        return lambda: self.world.load([member], 1, 0.05, parallel=4, crowd=20_000)

    def cache(self):
        """Far more users are asked for than are kept in memory."""
        beside = ["ReadstatesChangesSlow"]
        self.expect("cache", ["ReadstatesCacheTooSmall"], beside)
        store = f"embedded:{self.world.folder / 'cache-data'}"
        flags = ["--capacity-states", "1000", "--flush-interval", "1s"]
        member = self.world.member("cache", "cache-0", "--store", store, *flags, ring=False)
        self.world.load([member], 400, 0.1)
        return lambda: self.world.load([member], 1_000_000, 0.004, parallel=4)

    def certificate(self):
        """A certificate has a day left."""
        self.expect("certificate", ["ReadstatesCertificateExpires"])
        folder = self.world.folder / "certificates"
        command = [self.world.programs / "readstates", "certificates", folder, "--days", "1"]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
        flags = ["--store", "memory", "--members-tls-dir", folder / "member"]
        self.world.member("certificate", "certificate-0", *flags)
        return None

    def access(self):
        """The file of callers is broken."""
        self.expect("access", ["ReadstatesFilesRefused"])
        file = self.world.folder / "access.yaml"
        file.write_text(json.dumps({"callers": [{"name": "gateway", "verbs": ["read"], "tokens": ["sha256:" + "0" * 64]}]}))
        self.world.member("access", "access-0", "--store", "memory", "--access", file, ring=False)
        return lambda: file.write_text("callers: [")


class Operator:
    """An operator at an API server without nodes: what it cannot bring about it tells."""

    def __init__(self, world, arguments):
        self.world, self.kubectl = world, [arguments.kubectl, "--kubeconfig", arguments.kubeconfig]
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        images = ["--readstates-image", "readstates", "--agent-image", "operator"]
        command = [world.programs / "operator", "run", "--listen", self.address, *images]
        self.run("apply", "--server-side", "-f", ROOT / "crds")
        self.process = world.process("operator", command, {"KUBECONFIG": str(arguments.kubeconfig)})
        until("operator", lambda: self.process.said("") and listens(self.port))

    def run(self, *words, given=None):
        subprocess.run([*self.kubectl, *map(str, words)], input=given, text=True, check=True, capture_output=True, timeout=PATIENCE)

    def cluster(self):
        """One that has served, by the number of its ring, and whose pods nobody starts any more."""
        cluster = {
            "apiVersion": "readstates.dev/v1alpha1",
            "kind": "ReadStateCluster",
            "metadata": {"name": "unstarted", "namespace": "default"},
            "spec": {"replicas": 1, "database": {"embedded": {}}},
        }
        self.run("apply", "-f", "-", given=json.dumps(cluster))
        self.run("wait", "--for=create", "--timeout=60s", "readstaterings/unstarted", "--namespace", "default")
        self.run("patch", "readstaterings/unstarted", "--namespace", "default", "--type=merge", "--patch", '{"spec": {"number": 2}}')


def fired(world, since):
    """By cluster, or by name for those of the operator."""
    found = world.query(f'count by (alertname, readstates_cluster, name) (max_over_time(ALERTS{{alertstate="firing"}}[{since}s]))')
    alerts = {}
    for sample in found:
        labels = sample["metric"]
        alerts.setdefault(labels.get("readstates_cluster") or labels.get("name") or "operator", set()).add(labels["alertname"])
    return alerts


def watch(world, started, seconds, expected):
    """Waits until everything that has to has fired, and then as long again as an alert could still take."""
    end = time.monotonic() + seconds
    said = 0
    while time.monotonic() < end:
        time.sleep(3)
        alerts = fired(world, round(time.monotonic() - started) + 1)
        missing = [f"{alert} of {of}" for of, (must, _) in expected.items() for alert in sorted(must - alerts.get(of, set()))]
        if missing and time.monotonic() - said > 20:
            said = time.monotonic()
            print(f"    {round(end - said)} s left for {', '.join(missing)}", flush=True)
        if not missing:
            break
    time.sleep(LONGEST_FOR)
    return fired(world, round(time.monotonic() - started) + 1)


def report(alerts, expected):
    wrong = 0
    print(f"\n{'cluster':<13} {'alert':<36} verdict")
    for of in sorted(set(alerts) | set(expected)):
        must, may = expected.get(of, (set(), set()))
        got = alerts.get(of, set())
        for alert in sorted(must | got):
            verdict = "fired, as it had to" if alert in must & got else "MISSING" if alert in must else "follows from it" if alert in may else "NO REASON"
            wrong += verdict.isupper()
            print(f"{of:<13} {alert:<36} {verdict}")
        if not must | got:
            print(f"{of:<13} {'none':<36} as it should be")
    provoked = sum(len(must) for must, _ in expected.values())
    happened = sum(len(must & alerts.get(of, set())) for of, (must, _) in expected.items())
    false = sum(len(got - set.union(*expected.get(of, (set(), set())))) for of, got in alerts.items())
    print(f"\n{provoked} provoked, {happened} fired, {false} false")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--prometheus", type=pathlib.Path, required=True)
    parser.add_argument("--jars", type=pathlib.Path, required=True)
    parser.add_argument("--kubectl", type=pathlib.Path, required=True)
    parser.add_argument("--kubeconfig", type=pathlib.Path, required=True)
    parser.add_argument("--keep", type=pathlib.Path, help="where logs and answers are left")
    parser.add_argument("--pictures", type=pathlib.Path, help="where the dashboards are drawn")
    arguments = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="readstates-monitoring-"))
    world = World(arguments.programs, folder)
    # An interrupt ends what was started, as every other end does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    try:
        return provoke(world, arguments)
    finally:
        world.end()
        if arguments.keep:
            arguments.keep.mkdir(parents=True, exist_ok=True)
            for log in folder.glob("*.log"):
                shutil.copy(log, arguments.keep)
        shutil.rmtree(folder, ignore_errors=True)


def provoke(world, arguments):
    rules = world.folder / "rules.yaml"
    rules.write_text(faster(RULES.read_text()))
    faults = Faults(world, arguments)
    operator = Operator(world, arguments)
    names = ["calm", "database", "ring", "killed", "disk", "overload", "cache", "certificate", "access"]
    breaks = {}
    for name in names:
        print(f"    {name}: {getattr(faults, name).__doc__}", flush=True)
        breaks[name] = getattr(faults, name)()
    world.prometheus(arguments.prometheus, rules, SCRAPE, operator.address)
    started = time.monotonic()
    print("==> all serve; a minute of ordinary life", flush=True)
    time.sleep(60)
    early = fired(world, 60)
    certificate = {"ReadstatesCertificateExpires"}
    if any(found - certificate for found in early.values()):
        print(f"before anything was provoked: {early}")
        return 1
    print("==> faults", flush=True)
    operator.cluster()
    faults.expect("unstarted", ["ReadstatesUnavailable"], ["ReadstatesDegraded"])
    for name, fault in breaks.items():
        if fault:
            fault()
            print(f"    {name}", flush=True)
    alerts = watch(world, started, 240, faults.expected)
    # The operator last: what it says of its cluster ends with it.
    print("==> the operator is killed", flush=True)
    operator.process.stop(signal.SIGKILL)
    faults.expect("operator", ["ReadstatesOperatorAbsent"])
    alerts = watch(world, started, 120, faults.expected)
    if arguments.pictures:
        from monitoring_pictures import draw

        draw(world, arguments.pictures, time.time() - (time.monotonic() - started))
    return 1 if report(alerts, faults.expected) else 0


if __name__ == "__main__":
    sys.exit(main())
