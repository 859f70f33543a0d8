"""Kills members of a ring of processes under load, as hack/kills says.

In: programs, a store, a folder, and how long, how often and how. Out: a line for each kill, a summary, and exit status 1
if something acknowledged was lost or counted twice, or if the ring did not come to rest.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from functools import partial

MEMBERS = ["chat-0", "chat-1", "chat-2"]
SLOTS = 1024
FIRST_PORT = 17610
# An epoch's number is the time in microseconds without its last 24 bits.
EPOCH_SECONDS = 2**24 / 1e6
# A promotion takes seconds; on a machine that does other things, some more.
PATIENCE = 120


def weigh(nice):
    """Runs what follows at this nice value, also where the kernel weighs sessions against each other."""
    os.nice(nice)
    autogroup = pathlib.Path("/proc/self/autogroup")
    if nice and autogroup.exists():
        # A kernel takes this ten times a second at most from those that are not root.
        for _ in range(20):
            with contextlib.suppress(BlockingIOError):
                autogroup.write_text(str(nice), encoding="ascii")
                return
            time.sleep(0.1)


class Member:
    """A process and its ports."""

    def __init__(self, name, world):
        self.name, self.world = name, world
        self.port = FIRST_PORT + 5 * MEMBERS.index(name)
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = None

    def start(self):
        """Starts it, as a container that ended is started: under its name, with nothing in memory."""
        command = [
            *[self.world.programs / "readstates", "serve", "--member", self.name, "--store", self.world.store],
            *["--listen", f"127.0.0.1:{self.port}", "--admin-listen", f"127.0.0.1:{self.port + 1}"],
            *["--ring", self.world.ring, "--durability", self.world.durability],
            *["--flush-mode", "interval", "--flush-interval", "1m"],
        ]
        with open(self.world.folder / f"{self.name}.log", "ab") as log:
            lower = partial(weigh, self.world.nice)
            self.process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=lower, start_new_session=True)

    def kill(self):
        """Ends it at once."""
        self.process.kill()
        self.process.wait()

    def counters(self):
        """Of this process: slots that got a backup, and slots whose backup was given up; or nothing."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port + 4}/metrics", timeout=5) as answer:
                lines = answer.read().decode().splitlines()
        except (urllib.error.URLError, OSError, ValueError):
            return None
        values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#") and " " in line)
        return [int(float(values[f"readstates_backups_{what}_total"])) for what in ("named", "dropped")]

    def status(self):
        """What it says of itself, or nothing."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port + 1}/admin/v1/status", timeout=5) as answer:
                return json.load(answer)
        except (urllib.error.URLError, OSError, ValueError):
            return None


class World:
    """Three members, their ring, and what was seen of them."""

    def __init__(self, options):
        self.programs, self.folder = options.programs, options.folder
        self.store, self.durability, self.nice = options.store, options.durability, options.nice
        self.ring = f"file:{options.folder / 'ring'}"
        self.members = [Member(name, self) for name in MEMBERS]
        self.lost_users = 0
        # By process, as of the last look: slots that got a backup, and whose backup was given up.
        self.backups = {}
        # The most that an epoch was ahead of the clock.
        self.ahead = 0.0

    def look_at_backups(self):
        """Takes note of how often backups came and went, and of what epochs that has used up."""
        for member in self.members:
            counters = member.counters()
            if counters:
                self.backups[member.process.pid] = counters
        with contextlib.suppress(FileNotFoundError), open(self.folder / "ring" / "ring.json", "rb") as ring:
            latest = max(json.load(ring)["epochs"])
            self.ahead = max(self.ahead, latest * EPOCH_SECONDS - time.time())

    def statuses(self, members):
        """Of all of them, or nothing."""
        statuses = [member.status() for member in members]
        return statuses if all(statuses) else None

    def served(self, members):
        """Whether these own every slot."""
        statuses = self.statuses(members)
        return statuses and sum(s["ownership"]["owned"] for s in statuses) == SLOTS

    def at_rest(self):
        """Whether every member has its share of the slots, and each slot a backup."""
        statuses = self.statuses(self.members)
        if not statuses or sum(s["ownership"]["owned"] for s in statuses) != SLOTS:
            return False
        share = SLOTS // len(MEMBERS)
        return all(
            s["ownership"]["owned"] >= share and s["ownership"]["replication"]["unprotected"] == 0 for s in statuses
        )

    def rebalance(self):
        """Gives members that have just started their share. It may come too early, and is repeated."""
        command = [self.programs / "readstates", "rebalance", "--ring", self.ring]
        subprocess.run(command, capture_output=True, check=False)

    def come_to_rest(self):
        """Rebalances until it is at rest."""
        end = time.monotonic() + PATIENCE
        tried = 0
        while not self.at_rest():
            if time.monotonic() > end:
                told = json.dumps([member.status() for member in self.members], indent=1)
                raise SystemExit(f"the ring is not at rest after {PATIENCE} s; logs: {self.folder}\n{told}")
            if time.monotonic() >= tried + 2:
                self.rebalance()
                tried = time.monotonic()
            time.sleep(0.2)

    def kill_one(self, chance):
        """Kills a member, and starts it again at once or once its users are served; returns the seconds until then."""
        victim = chance.choice(self.members)
        others = [member for member in self.members if member is not victim]
        at_once = chance.random() < 0.5
        owned = (victim.status() or {"ownership": {"owned": "?"}})["ownership"]["owned"]
        self.look_at_backups()
        began = time.monotonic()
        victim.kill()
        if at_once:
            victim.start()
        while not self.served(self.members if at_once else others):
            if time.monotonic() > began + PATIENCE:
                raise SystemExit(f"{victim.name}'s users are not served {PATIENCE} s after it was killed; logs: {self.folder}")
            time.sleep(0.05)
        took = time.monotonic() - began
        if not at_once:
            victim.start()
        self.lost_users += sum(s["ownership"]["replication"]["lost_users"] for s in self.statuses(others) or [])
        print(f"    {victim.name} with {owned} slots killed: served again after {took:.1f} s", flush=True)
        return took


def options():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("programs", "folder"):
        parser.add_argument(f"--{name}", required=True, type=pathlib.Path)
    for name in ("store", "durability"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("seconds", "every", "rate", "seed", "nice"):
        parser.add_argument(f"--{name}", required=True, type=int)
    return parser.parse_args()


def load(world, given):
    """The generator: it writes down what it sent, repeats what is not answered, and looks for it at the end."""
    urls = ",".join(member.url for member in world.members)
    command = [
        *[world.programs / "readstates-bench", "--url", urls, "--check", "--batch", "16", "--users", "20000"],
        *["--rate", str(given.rate), "--duration", f"{given.seconds}s", "--output", "json"],
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def main():
    given = options()
    # Members end with this, whatever ends it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    world = World(given)
    chance = random.Random(given.seed)
    took, began = [], time.monotonic()
    try:
        for member in world.members:
            member.start()
        world.come_to_rest()
        print("    three members, and every slot has a backup", flush=True)
        generator = load(world, given)
        end = time.monotonic() + given.seconds
        # None is killed while what must be there is looked for.
        while time.monotonic() + given.every + PATIENCE / 4 < end and generator.poll() is None:
            time.sleep(given.every)
            world.come_to_rest()
            took.append(world.kill_one(chance))
            world.come_to_rest()
        out, said = generator.communicate()
        if generator.returncode not in (0, 1):
            raise SystemExit(f"the generator failed: {said}")
        return tell(json.loads(out)["check"], took, world)
    finally:
        try:
            tell_of_backups(world, (time.monotonic() - began) / 60)
        finally:
            for member in world.members:
                if member.process and member.process.poll() is None:
                    member.kill()


def tell_of_backups(world, minutes):
    """Prints how often they came and went, also where something went wrong."""
    world.look_at_backups()
    named, dropped = (sum(counts) for counts in zip((0, 0), *world.backups.values()))
    print(
        f"    slots that got a backup {named / minutes:,.0f} a minute, whose backup was given up {dropped / minutes:,.0f} "
        f"a minute; epochs at most {max(world.ahead, 0):.0f} s ahead of the clock",
        flush=True,
    )


def tell(check, took, world):
    """Prints what was found; returns the exit status."""
    print(f"    acknowledged {check['acknowledged']:,} of {check['sent']:,} sent; {check['unknown']} without an answer")
    print(f"    lost {check['lost']}, counted twice {check['doubled']}, never sent and there {check['foreign']}")
    for example in check["examples"]:
        print(f"      {example}")
    print(f"    users whose loss the members told: {world.lost_users}")
    if took:
        print(
            f"    {len(took)} kills; seconds until all were served again: median {quantile(took, 0.5):.1f}, "
            f"p99 {quantile(took, 0.99):.1f}"
        )
    sound = took and check["acknowledged"] > 0 and not (check["lost"] or check["doubled"] or check["foreign"])
    print("SOUND" if sound else "WRONG")
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
