"""What hack/contract tells Schemathesis about the API that an OpenAPI document cannot say.

What the prose of the document refuses although each part of it is valid may be refused, and what it does not describe
and the service takes on purpose may be taken. Everything else has to agree.
"""

import struct

import schemathesis
from hypothesis import strategies as st
from schemathesis.specs.openapi import checks

IDS = st.one_of(st.just(1), st.just(2**64 - 1), st.integers(1, 2**64 - 1))
COUNTS = st.one_of(st.just(1), st.just(2**32 - 1), st.integers(1, 2**32 - 1))


def record(operation):
    """A record of a batch: acknowledgement (1), manual acknowledgement (2), mention (3) or read (4, in version 2)."""
    count = COUNTS if operation in (2, 3) else st.just(0)
    message = st.just(0) if operation == 4 else IDS
    parts = st.tuples(count, IDS, IDS, message)
    return parts.map(lambda p: struct.pack("<BBHIQQQ", operation, 0, 0, *p))


def frames(magic, version, operations):
    def frame(records):
        return struct.pack("<4sBBHII", magic, version, 0, 0, len(records), 0) + b"".join(records)

    return st.lists(st.sampled_from(operations).flatmap(record), min_size=1, max_size=8).map(frame)


FRAMES = st.one_of(frames(b"RSB1", 1, [1, 2, 3]), frames(b"RSB2", 2, [1, 2, 3, 4]))
schemathesis.openapi.media_type("application/vnd.readstates.batch", FRAMES)


def ids_as_numbers(value):
    """Whether an id is a number somewhere: the service takes those, and the document offers strings alone."""
    if isinstance(value, dict):
        return any(
            (key.endswith("_id") and isinstance(part, (int, float)))
            or (key == "user_ids" and isinstance(part, list) and any(isinstance(one, (int, float)) for one in part))
            or ids_as_numbers(part)
            for key, part in value.items()
        )
    return isinstance(value, list) and any(ids_as_numbers(part) for part in value)


def is_refused_by_prose(case):
    body, headers, query = case.body, case.headers or {}, case.query or {}
    # A mention count is set together with a position.
    if isinstance(body, dict) and body.get("mention_count") is not None and body.get("manual") is not True:
        return True
    # There were no pins before 1970. Where that is another year, it began or ended hours ago.
    if isinstance(body, dict) and str(body.get("last_pin_timestamp", "9"))[:4] <= "1970":
        return True
    # A version is that of one user.
    several = isinstance(body, dict) and isinstance(body.get("user_ids"), list) and len(body["user_ids"]) > 1
    versions = [str(value) for name, value in headers.items() if name.lower() == "if-match"]
    if several and versions:
        return True
    # Not of the pattern that the document gives: Schemathesis 4.32 calls this one valid.
    if versions == ["0"]:
        return True
    # What changed since a version has no pages.
    return "since" in query and ("limit" in query or "after" in query)


@schemathesis.check
def valid_requests_are_taken(context, response, case):
    """Schemathesis' own check of that, but for what prose refuses."""
    if not is_refused_by_prose(case):
        return checks.positive_data_acceptance(context, response, case)


@schemathesis.check
def other_requests_are_refused(context, response, case):
    """Schemathesis' own check of that, but for ids as numbers."""
    if not ids_as_numbers(case.body):
        return checks.negative_data_rejection(context, response, case)


@schemathesis.hook
def before_call(context, case, kwargs):
    # Nobody changes the ring of this process: who waits for a later one waits for half a minute.
    if case.operation.path == "/v1/ring" and str((case.query or {}).get("after", "")).isdigit():
        case.query["after"] = 0
