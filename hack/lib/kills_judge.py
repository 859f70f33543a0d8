"""What hack/kills looks for, and what it comes to. Pure.

In: what reads have shown, what the generator found, what members counted. Out: what is wrong, what there was too little of,
and the last word.
"""

import threading
from collections import namedtuple

# What a read shows of a user: the version, and by channel the last message that was read and the mentions.
Shown = namedtuple("Shown", "version states")
NOTHING = Shown(0, {})

# What a run was like. `check` is what the generator found, `strikes` how many faults there were, `seen` what reads have shown,
# `read_meanwhile` how many of them were beside the load, `differences` how the database differs from what the members had,
# `ended` the members that did not end in order; `seconds` and `rate` say what load there was to be.
Run = namedtuple("Run", "check strikes seen read_meanwhile differences lost_users ended seconds rate")

# With less than this share of the operations that were to be, and with fewer reads in a second, a run says nothing.
LEAST_SHARE, LEAST_READS = 0.1, 1
# So many findings of one kind are told.
TOLD = 5


def shown(answer):
    """What an answer of GET /v1/users/USER/read-states shows."""
    states = {
        state["channel_id"]: (int(state["last_message_id"] or 0), state["mention_count"])
        for state in answer["read_states"]
    }
    return Shown(int(answer["version"]), states)


class Seen:
    """The most that reads have shown of each user. The generator deletes nothing, takes no position back and reads no mention:
    a read that began after another has ended shows as much or more.
    """

    def __init__(self):
        self.reads, self.wrong = 0, []
        self.latest = {}
        self.lock = threading.Lock()

    def floor(self, user):
        """What is known before a read begins."""
        with self.lock:
            return self.latest.get(user, NOTHING)

    def take(self, user, floor, now):
        """Takes in what a read has shown that began when `floor` was known."""
        with self.lock:
            self.reads += 1
            self.wrong += [f"user {user}: {what}" for what in behind(floor, now)]
            latest = self.latest.get(user, NOTHING)
            if now.version == latest.version and now.states != latest.states:
                self.wrong.append(f"user {user}: version {now.version} stands for {latest.states} and for {now.states}")
            if now.version > latest.version:
                self.latest[user] = now


def behind(floor, now):
    """What a read shows less of than what was known before it."""
    if now.version < floor.version:
        yield f"version {now.version} was read after {floor.version}"
    for channel, known in floor.states.items():
        there = now.states.get(channel, (0, 0))
        if there[0] < known[0] or there[1] < known[1]:
            yield f"channel {channel}: {there} was read after {known}"


def differences(before, after):
    """What the second look at all users shows otherwise than the first: nothing was changed in between."""
    for user in sorted({*before, *after}):
        first, second = before.get(user, NOTHING), after.get(user, NOTHING)
        if first != second:
            yield f"user {user}: the members had {first}, the database has {second}"


def wrong(run):
    """What is not as it should be. One member at a time was killed or stopped, and each slot had a backup: there is no excuse."""
    check = run.check
    counts = {"lost": check["lost"], "counted twice": check["doubled"], "there and never sent": check["foreign"]}
    yield from (f"{count} operations are {what}" for what, count in counts.items() if count)
    if run.lost_users:
        yield f"members say that changes of {run.lost_users} users are lost"
    if run.seen.wrong:
        yield f"{len(run.seen.wrong)} reads show less than earlier ones, or other than they"
    if run.differences:
        yield f"{len(run.differences)} users are not in the database as the members had them"
    yield from (f"{name} has not ended in order" for name in run.ended)


def lacks(run):
    """What there was too little of for the run to mean anything."""
    if not run.strikes:
        yield "no member was killed or stopped"
    acknowledged, least = run.check["acknowledged"], max(int(LEAST_SHARE * run.rate * run.seconds), 1)
    if acknowledged < least:
        yield f"{acknowledged} operations were acknowledged, {least} at least were to be"
    reads = LEAST_READS * run.seconds
    if run.read_meanwhile < reads:
        yield f"{run.read_meanwhile} reads were answered beside the load, {reads} at least were to be"
    written = sum(1 for found in run.seen.latest.values() if found.states)
    if written < run.check["users"]:
        yield f"{written} users were found of {run.check['users']} that were changed"


def word(run):
    """The last word."""
    if any(wrong(run)):
        return "WRONG"
    return "TOO LITTLE" if any(lacks(run)) else "SOUND"
