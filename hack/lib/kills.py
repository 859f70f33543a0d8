"""Kills and stops members of a ring of processes under load, as hack/kills says.

In: programs, a store, a folder, and how long, how often and how. Out: a line for each fault, a summary, and exit status 1
if something acknowledged was lost or counted twice, if reads or the database show it, if too little was done, or if the ring
did not come to rest.
"""

import argparse
import json
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

import kills_judge as judge
from kills_reads import SEED, USERS, Reader, read_all
from kills_world import PATIENCE, World

# Seconds of a run in which everything is read, written, and read again, once there is no load any more.
COMPARING = 120


def options():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("programs", "folder"):
        parser.add_argument(f"--{name}", required=True, type=pathlib.Path)
    for name in ("store", "durability"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("seconds", "every", "rate", "seed", "nice"):
        parser.add_argument(f"--{name}", required=True, type=int)
    return parser.parse_args()


def load(world, given, seconds):
    """The generator: it writes down what it sent, repeats what is not answered, and looks for it at the end."""
    urls = ",".join(member.url for member in world.members)
    command = [
        *[world.programs / "readstates-bench", "--url", urls, "--check", "--batch", "16", "--users", str(USERS)],
        *["--seed", str(SEED), "--rate", str(given.rate), "--duration", f"{seconds}s", "--output", "json"],
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def main():
    given = options()
    # Members end with this, whatever ends it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    world = World(given, random.Random(given.seed))
    began = time.monotonic()
    try:
        for member in world.members:
            member.start()
        world.come_to_rest()
        print("    three members, and every slot has a backup", flush=True)
        run, took = go_through(world, given)
        return tell(run, took)
    finally:
        try:
            tell_of_backups(world, (time.monotonic() - began) / 60)
        finally:
            for member in world.members:
                if member.process and member.process.poll() is None:
                    member.kill()


def go_through(world, given):
    """Load and faults, and then the comparisons. Returns what is judged, and how long users were not served each time."""
    seconds = max(given.seconds - COMPARING, given.seconds // 2)
    generator, seen, over = load(world, given, seconds), judge.Seen(), threading.Event()
    end, took = time.monotonic() + seconds, []
    readers = [
        threading.Thread(target=Reader(member).watch, args=(seen, over, random.Random(number)), daemon=True)
        for number, member in enumerate(world.members)
    ]
    for reader in readers:
        reader.start()
    # No fault while what must be there is looked for.
    while (left := end - time.monotonic() - given.every - PATIENCE / 4) > 0 and generator.poll() is None:
        fault = world.draw(left)
        time.sleep(given.every)
        world.come_to_rest()
        took.append(world.strike(fault))
        world.come_to_rest()
    out, said = generator.communicate()
    over.set()
    for reader in readers:
        reader.join()
    read_meanwhile = seen.reads
    if generator.returncode not in (0, 1):
        raise SystemExit(f"the generator failed: {said}")
    before = read_all(world, seen)
    world.look()
    print("    members end in order, and others begin with what the database has", flush=True)
    ended = world.end_in_order()
    world.begin_afresh()
    after = read_all(world, seen)
    world.look()
    _, _, lost_users = world.totals()
    run = judge.Run(
        check=json.loads(out)["check"],
        strikes=len(took),
        seen=seen,
        read_meanwhile=read_meanwhile,
        differences=list(judge.differences(before, after)),
        lost_users=lost_users,
        ended=ended,
        seconds=seconds,
        rate=given.rate,
    )
    return run, took


def tell_of_backups(world, minutes):
    """Prints how often they came and went, also where something went wrong."""
    world.look()
    named, dropped, _ = world.totals()
    print(
        f"    slots that got a backup {named / minutes:,.0f} a minute, whose backup was given up {dropped / minutes:,.0f} "
        f"a minute; epochs at most {max(world.ahead, 0):.0f} s ahead of the clock",
        flush=True,
    )


def tell(run, took):
    """Prints what was found; returns the exit status."""
    check = run.check
    print(f"    acknowledged {check['acknowledged']:,} of {check['sent']:,} sent; {check['unknown']} without an answer")
    print(f"    lost {check['lost']}, counted twice {check['doubled']}, never sent and there {check['foreign']}")
    print(
        f"    {run.seen.reads:,} reads, {len(run.seen.wrong)} of them behind; {len(run.differences)} users differ in the database; "
        f"users whose loss the members told: {run.lost_users}"
    )
    for findings in (check["examples"], run.seen.wrong, run.differences):
        for finding in findings[: judge.TOLD]:
            print(f"      {finding}")
    if took:
        print(
            f"    {len(took)} kills and stops; seconds until all were served again: median {quantile(took, 0.5):.1f}, "
            f"p99 {quantile(took, 0.99):.1f}"
        )
    for why in [*judge.wrong(run), *judge.lacks(run)]:
        print(f"    {why}")
    word = judge.word(run)
    print(word)
    return 0 if word == "SOUND" else 1


if __name__ == "__main__":
    sys.exit(main())
