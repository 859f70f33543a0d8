"""Reads of the generator's users, beside its load and after it: kills_judge.py says what they must show."""

import http.client
import json
import time
from concurrent.futures import ThreadPoolExecutor

import kills_judge as judge
from kills_world import PATIENCE

# The generator's users, with the seed that it is given.
SEED, FIRST_USER, USERS = 0, 1 << 40, 20000
# Of these, those that are read again and again meanwhile.
WATCHED = range(FIRST_USER, FIRST_USER + 200)
# Seconds between two reads through a member.
PAUSE = 0.02
# At once, when all users are read.
READERS = 8


class Reader:
    """Reads users through one member, over one connection while that lasts."""

    def __init__(self, member):
        self.port, self.connection = member.port, None

    def read(self, user):
        """What it shows, or nothing."""
        if not self.connection:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            self.connection.request("GET", f"/v1/users/{user}/read-states")
            answer = self.connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException):
            self.connection.close()
            self.connection = None
            return None
        return judge.shown(json.loads(body)) if answer.status == 200 else None

    def watch(self, seen, over, chance):
        """Reads some users again and again, until it is over."""
        while not over.wait(PAUSE):
            user = chance.choice(WATCHED)
            floor = seen.floor(user)
            found = self.read(user)
            if found:
                seen.take(user, floor, found)

    def read_surely(self, user, seen):
        """The same of one user, until there is an answer."""
        end, floor = time.monotonic() + PATIENCE, seen.floor(user)
        while time.monotonic() < end:
            found = self.read(user)
            if found:
                seen.take(user, floor, found)
                return found
            time.sleep(0.1)
        raise SystemExit(f"user {user} could not be read for {PATIENCE} s")


def read_all(world, seen):
    """What the members show of all users."""

    def part(number):
        reader = Reader(world.members[number % len(world.members)])
        users = range(FIRST_USER + number, FIRST_USER + USERS, READERS)
        return {user: reader.read_surely(user, seen) for user in users}

    with ThreadPoolExecutor(READERS) as pool:
        parts = list(pool.map(part, range(READERS)))
    return {user: found for part in parts for user, found in part.items()}
