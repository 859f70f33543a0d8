"""Three members of a ring as processes, and the faults that hack/kills brings upon them, one at a time."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections import namedtuple
from functools import partial

MEMBERS = ["chat-0", "chat-1", "chat-2"]
SLOTS = 1024
FIRST_PORT = 17610
# An epoch's number is the time in microseconds without its last 24 bits.
EPOCH_SECONDS = 2**24 / 1e6
# A promotion takes seconds; on a machine that does other things, some more.
PATIENCE = 120
# How long a change waits for the database at most. Each process has one of these: what it has acknowledged is in memory alone
# for long, or is on its way to the database while it dies.
FLUSH_INTERVALS = ["5s", "20s", "1m"]
# Seconds for which a member is stopped: from as long as a backup waits for its owner to much longer than it lives in the ring.
STOPPED = (3, 60)
# Of faults, so many are kills.
KILLS = 0.6

# A member that dies, or is stopped for so many seconds.
Fault = namedtuple("Fault", "victim stopped")


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
            *["--flush-mode", "interval", "--flush-interval", self.world.chance.choice(FLUSH_INTERVALS)],
        ]
        with open(self.world.folder / f"{self.name}.log", "ab") as log:
            lower = partial(weigh, self.world.nice)
            self.process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=lower, start_new_session=True)

    def kill(self):
        """Ends it at once."""
        self.process.kill()
        self.process.wait()

    def stop(self):
        """Lets it do nothing, until it goes on."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def end(self):
        """Ends it in order; whether it says that everything is written or handed on."""
        self.process.terminate()
        try:
            return self.process.wait(PATIENCE) == 0
        except subprocess.TimeoutExpired:
            self.kill()
            return False

    def counters(self):
        """Of this process: slots that got a backup, slots whose backup was given up, and users of whom it says that changes are
        lost; or nothing."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port + 4}/metrics", timeout=5) as answer:
                lines = answer.read().decode().splitlines()
        except (urllib.error.URLError, OSError, ValueError):
            return None
        values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#") and " " in line)
        counted = ("backups_named", "backups_dropped", "backup_lost_users")
        return [int(float(values[f"readstates_{what}_total"])) for what in counted]

    def status(self):
        """What it says of itself, or nothing."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port + 1}/admin/v1/status", timeout=5) as answer:
                return json.load(answer)
        except (urllib.error.URLError, OSError, ValueError):
            return None


class World:
    """Three members, their ring, and what was seen of them."""

    def __init__(self, options, chance):
        self.chance = chance
        self.programs, self.folder = options.programs, options.folder
        self.store, self.durability, self.nice = options.store, options.durability, options.nice
        self.ring = f"file:{options.folder / 'ring'}"
        self.members = [Member(name, self) for name in MEMBERS]
        # By process, as of the last look: what it counts since it started.
        self.counted = {}
        # The most that an epoch was ahead of the clock.
        self.ahead = 0.0

    def look(self):
        """Takes note of how often backups came and went, of what epochs that has used up, and of what members say is lost."""
        for member in self.members:
            counters = member.counters()
            if counters:
                self.counted[member.process.pid] = counters
        with contextlib.suppress(FileNotFoundError), open(self.folder / "ring" / "ring.json", "rb") as ring:
            latest = max(json.load(ring)["epochs"])
            self.ahead = max(self.ahead, latest * EPOCH_SECONDS - time.time())

    def totals(self):
        """What all processes have counted, those that are gone as of the last look before."""
        return [sum(counts) for counts in zip((0, 0, 0), *self.counted.values())]

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

    def draw(self, left):
        """The next fault, which is over after so many seconds at most."""
        victim = self.chance.choice(self.members)
        least, most = STOPPED
        if self.chance.random() < KILLS or left < least:
            return Fault(victim, None)
        # Short stops as often as long ones.
        return Fault(victim, min(left, least * (most / least) ** self.chance.random()))

    def strike(self, fault):
        """Carries a fault out; returns the seconds until the users of its victim were served again."""
        victim = fault.victim
        others = [member for member in self.members if member is not victim]
        owned = (victim.status() or {"ownership": {"owned": "?"}})["ownership"]["owned"]
        # What a process has counted goes with it.
        self.look()
        if fault.stopped is None:
            what, took = "killed", self.kill(victim, others)
        else:
            what, took = f"stopped for {fault.stopped:.1f} s", self.stop(victim, others, fault.stopped)
        print(f"    {victim.name} with {owned} slots {what}: served again after {took:.1f} s", flush=True)
        return took

    def kill(self, victim, others):
        """Kills a member, and starts it again at once or once its users are served."""
        at_once = self.chance.random() < 0.5
        began = time.monotonic()
        victim.kill()
        if at_once:
            victim.start()
        self.wait_until_served(self.members if at_once else others, victim, began)
        took = time.monotonic() - began
        if not at_once:
            victim.start()
        return took

    def stop(self, victim, others, seconds):
        """Stops a member for so long; others may take its slots, and it hears of that when it goes on."""
        began = time.monotonic()
        victim.stop()
        took = None
        try:
            while time.monotonic() < began + seconds:
                if took is None and self.served(others):
                    took = time.monotonic() - began
                time.sleep(0.05)
        finally:
            victim.go_on()
        self.wait_until_served(self.members, victim, began + seconds)
        return took or time.monotonic() - began

    def wait_until_served(self, members, victim, began):
        """Waits until these own every slot."""
        while not self.served(members):
            if time.monotonic() > began + PATIENCE:
                raise SystemExit(f"{victim.name}'s users are not served {PATIENCE} s after the fault; logs: {self.folder}")
            time.sleep(0.05)

    def end_in_order(self):
        """Ends all members, one after another: the last one writes what all have. Returns those that did not end so."""
        return [member.name for member in self.members if not member.end()]

    def begin_afresh(self):
        """Starts all members with nothing in memory: what they answer is what the database has."""
        for member in self.members:
            member.start()
        self.wait_until_served(self.members, self.members[0], time.monotonic())
