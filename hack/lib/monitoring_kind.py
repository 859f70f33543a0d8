"""Provokes faults in a ReadStateCluster on kind, under the Prometheus of a real Prometheus operator.

In: a kubeconfig whose cluster has the operator, its chart with monitors and rules, and the sample. Out: the targets that
Prometheus has found, a table of what fired after each fault, and exit status 1 if a target is missing or down, an alert
did not fire that had to, or one did that had no reason to.
"""

import argparse
import base64
import collections
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import urllib.parse

from monitoring_run import LONGEST_FOR, RULES, faster, fired, report
from monitoring_world import Load, until

SAMPLE, NAMESPACE, RELEASE = "chat", "default", "readstates-system"
PATIENCE = 300
# What the fault of a moment may bring along, whatever it is.
BESIDE = {
    "ReadstatesErrorBudgetBurnsFast",
    "ReadstatesErrorBudgetBurnsSlowly",
    "ReadstatesChangesSlow",
    "ReadstatesSlotsWithoutOwner",
    "ReadstatesRingDisagreement",
    "ReadstatesUnavailable",
    "ReadstatesDegraded",
}


def kubectl(*words, given=None, check=True):
    done = subprocess.run(["kubectl", *map(str, words)], input=given, text=True, capture_output=True, timeout=PATIENCE, check=False)
    if check and done.returncode:
        raise SystemExit(f"kubectl {' '.join(map(str, words))}: {done.stderr.strip()}")
    return done.stdout


class Prometheus:
    """Asked through the API server."""

    def get(self, path, **words):
        asked = urllib.parse.urlencode(words)
        base = "/api/v1/namespaces/monitoring/services/prometheus-operated:web/proxy/api/v1"
        # It may be restarting: no answer is no answer, and never an empty one.
        answer = until("an answer of Prometheus", lambda: kubectl("get", "--raw", f"{base}/{path}?{asked}", check=False), 60)
        return json.loads(answer)["data"]

    def query(self, expression, path="query", **more):
        return self.get(path, query=expression, **more)["result"]

    def targets(self):
        """By monitor: which pods, and whether they answer."""
        found = self.get("targets", state="active")
        by_monitor = collections.defaultdict(dict)
        for target in found["activeTargets"]:
            monitor = re.sub(r"/\d+$", "", target["scrapePool"])
            by_monitor[monitor][f"{target['labels'].get('pod')} {target['labels'].get('endpoint', '')}".strip()] = target["health"]
        return by_monitor


class Forward:
    """A port of this machine that leads to one cache pod."""

    def __init__(self, pod, token, log):
        self.headers = {"Authorization": f"Bearer {token}"}
        out = log.open("w")
        command = ["kubectl", "port-forward", "--namespace", NAMESPACE, f"pod/{pod}", ":7400"]
        self.child = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
        found = until("kubectl port-forward", lambda: re.search(r"127\.0\.0\.1:(\d+) ", log.read_text()))
        self.port = int(found[1])

    def end(self):
        self.child.terminate()
        self.child.wait()


def node_of(pod):
    return kubectl("get", "pod", pod, "--namespace", NAMESPACE, "--output", "jsonpath={.spec.nodeName}")


def on_node(pod, script, *words):
    command = ["docker", "exec", node_of(pod), "sh", "-c", script, "sh", *words]
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)


def kill(member):
    """Ends the process of a cache pod without a word."""
    script = 'for of in /proc/[0-9]*; do if tr "\\0" "\\n" <"$of/environ" 2>/dev/null | grep -qx "READSTATES_MEMBER=$1"; then kill -9 "${of#/proc/}"; fi; done'
    on_node(member, script, member)


def signal_database(pod, name):
    on_node(pod, 'pkill -"$1" -f "[o]rg.apache.cassandra.service.CassandraDaemon"', name)


def acknowledge_takeover():
    """What the runbook of the alert ends with: it goes on until somebody says that it was looked at."""
    path = "{.status.conditions[?(@.type=='TakenOver')].message}"

    def name():
        message = kubectl("get", "readstatecluster", SAMPLE, "--namespace", NAMESPACE, "--output", f"jsonpath={path}")
        return re.search(r"readstates\.dev/acknowledge-takeover=\w+", message)

    annotation = until("the takeover in the status", name, PATIENCE)[0]
    kubectl("annotate", "readstatecluster", SAMPLE, "--namespace", NAMESPACE, "--overwrite", annotation)


def cluster_settles():
    kubectl("rollout", "status", "--namespace", RELEASE, "deployment", "--timeout=180s")
    condition = ["--namespace", NAMESPACE, f"readstatecluster/{SAMPLE}", "--timeout=240s"]
    kubectl("wait", "--for=condition=Available", *condition)


def quicken(rules):
    """The chart's rules, faster, and waits until Prometheus works by them."""
    name = kubectl("get", "prometheusrules", "--namespace", RELEASE, "--output", "jsonpath={.items[0].metadata.name}")
    text = re.sub(r"(?m)^#.*\n", "", faster(rules.read_text()))
    spec = "".join(f"  {line}\n" for line in text.splitlines())
    whole = f"apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata: {{name: {name}, namespace: {RELEASE}}}\nspec:\n{spec}"
    kubectl("apply", "--server-side", "--force-conflicts", "--filename", "-", given=whole)

    def works():
        groups = prometheus.get("rules", type="alert")["groups"]
        waits = [rule["duration"] for group in groups for rule in group["rules"]]
        return len(waits) >= len(re.findall(r"(?m)^ *- alert:", text)) and max(waits) <= LONGEST_FOR

    prometheus = Prometheus()
    until("the rules in Prometheus", works, PATIENCE)


def all_targets(prometheus):
    """Every pod that a monitor is about is found and answers."""

    def answers():
        found = prometheus.targets()
        members = found.get(f"podMonitor/{NAMESPACE}/{SAMPLE}", {})
        complete = len(found) >= 3 and len(members) == 3
        return complete and all(health == "up" for pods in found.values() for health in pods.values()) and found

    found = None
    try:
        found = until("targets", answers, PATIENCE)
    finally:
        for monitor, pods in sorted((found or prometheus.targets()).items()):
            print(f"    {monitor}: " + ", ".join(f"{pod} {health}" for pod, health in sorted(pods.items())), flush=True)


def everything_fired(prometheus, since):
    return set().union(*fired(prometheus, max(1, round(time.monotonic() - since))).values())


def phase(prometheus, fault, undo, must, patience):
    """What fires from the fault until everything that has to has fired, and as long again as an alert can take."""
    began = time.monotonic()
    fault()
    while time.monotonic() - began < patience:
        time.sleep(3)
        if must and must <= everything_fired(prometheus, began):
            break
    time.sleep(LONGEST_FOR)
    found = everything_fired(prometheus, began)
    undo()
    return found


def silence(prometheus):
    """Waits until nothing fires any more, and until what did is out of the windows of the rules."""
    until("silence", lambda: not prometheus.query('ALERTS{alertstate="firing"}'), PATIENCE)
    time.sleep(5)


def provoke(prometheus, arguments):
    secret = kubectl("get", "secret", f"{SAMPLE}-caller", "--namespace", NAMESPACE, "--output", "jsonpath={.data.token}")
    token = base64.b64decode(secret).decode()
    forward = Forward(f"{SAMPLE}-0", token, arguments.keep / "port-forward.log")
    load = Load([forward], 500, 0.05, 2)
    database = kubectl("get", "pods", "--namespace", NAMESPACE, "--selector", "app.kubernetes.io/component=database", "--output", "jsonpath={.items[0].metadata.name}")
    deployment = kubectl("get", "deployments", "--namespace", RELEASE, "--output", "jsonpath={.items[0].metadata.name}")

    def scale(replicas):
        kubectl("scale", "deployment", deployment, "--namespace", RELEASE, f"--replicas={replicas}")

    def members(count):
        """What a person asks for, and waits for."""
        patch = json.dumps({"spec": {"replicas": count}})
        kubectl("patch", "readstatecluster", SAMPLE, "--namespace", NAMESPACE, "--type", "merge", "--patch", patch)
        stateful_set = f"statefulset/{SAMPLE}"
        kubectl("wait", stateful_set, "--namespace", NAMESPACE, f"--for=jsonpath={{.status.replicas}}={count}", "--timeout=240s")

    def restart():
        kubectl("delete", "pod", f"{SAMPLE}-2", "--namespace", NAMESPACE)

    def nothing():
        pass

    of_the_database = {"ReadstatesFlushesFail", "ReadstatesStorePartsAway", "ReadstatesOverloaded", "ReadstatesLimitNearlyUsed", "ReadstatesWaitsLong"}
    of_a_crash = {"ReadstatesMemberNotScraped", "ReadstatesHandoffStuck", "ReadstatesWaitsLong"}
    phases = [
        ("scaled", "a cache pod less is asked for, and then one more", lambda: members(2), lambda: members(3), set(), set(), 60),
        ("restarted", "a pod is deleted, and comes back", restart, nothing, set(), set(), 60),
        ("killed", "the process of a pod ends without a word", lambda: kill(f"{SAMPLE}-1"), acknowledge_takeover, {"ReadstatesUpdatesMayBeLost"}, BESIDE | of_a_crash, 120),
        (
            "database",
            "the database stops answering",
            lambda: signal_database(database, "STOP"),
            lambda: signal_database(database, "CONT"),
            {"ReadstatesStoreAway", "ReadstatesWritesLate"},
            BESIDE | of_the_database,
            200,
        ),
        ("operator", "nobody runs the operator", lambda: scale(0), lambda: scale(1), {"ReadstatesOperatorAbsent"}, set(), 120),
    ]
    alerts, expected = {}, {}
    try:
        print("==> a minute of ordinary life", flush=True)
        time.sleep(60)
        early = fired(prometheus, 60)
        if early:
            print(f"before anything was provoked: {early}")
            return 1
        for name, words, fault, undo, must, may, patience in phases:
            print(f"==> {words}", flush=True)
            alerts[name], expected[name] = phase(prometheus, fault, undo, must, patience), (must, may)
            print(f"    fired: {', '.join(sorted(alerts[name])) or 'nothing'}", flush=True)
            if name != "operator":
                silence(prometheus)
                cluster_settles()
        return 1 if report(alerts, expected) else 0
    finally:
        load.stop()
        forward.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=pathlib.Path, required=True, help="where logs and answers are left")
    parser.add_argument("--pictures", type=pathlib.Path, help="where the dashboards are drawn")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    prometheus = Prometheus()
    began = time.time()
    quicken(RULES)
    print("==> targets of Prometheus, by monitor", flush=True)
    all_targets(prometheus)
    status = provoke(prometheus, arguments)
    if arguments.pictures:
        from monitoring_pictures import draw

        draw(prometheus, arguments.pictures, began, {"cluster": SAMPLE, "ring": SAMPLE})
    return status


if __name__ == "__main__":
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    sys.exit(main())
