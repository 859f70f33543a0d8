"""What hack/contract tells Schemathesis about the API that an OpenAPI document cannot say.

Requests that the prose of the document refuses although each part of them is valid are left out, and so are requests
that it does not describe and the service takes on purpose. Everything else has to agree.
"""

import struct

import schemathesis
from hypothesis import strategies as st

IDS = st.one_of(st.just(1), st.just(2**64 - 1), st.integers(1, 2**64 - 1))
COUNTS = st.one_of(st.just(1), st.just(2**32 - 1), st.integers(1, 2**32 - 1))


def record(operation):
    """A record of a batch: acknowledgement (1), manual acknowledgement (2) or mention (3)."""
    count = st.just(0) if operation == 1 else COUNTS
    parts = st.tuples(count, IDS, IDS, IDS)
    return parts.map(lambda p: struct.pack("<BBHIQQQ", operation, 0, 0, *p))


def frame(records):
    return struct.pack("<4sBBHII", b"RSB1", 1, 0, 0, len(records), 0) + b"".join(records)


FRAMES = st.lists(st.sampled_from([1, 2, 3]).flatmap(record), min_size=1, max_size=8).map(frame)
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


@schemathesis.hook
def filter_case(context, case):
    body, headers, query = case.body, case.headers or {}, case.query or {}
    if ids_as_numbers(body):
        return False
    # A mention count is set together with a position.
    if isinstance(body, dict) and body.get("mention_count") is not None and body.get("manual") is not True:
        return False
    # A version is that of one user.
    several = isinstance(body, dict) and len(body.get("user_ids") or []) > 1
    if several and any(name.lower() == "if-match" for name in headers):
        return False
    # What changed since a version has no pages.
    return not ("since" in query and ("limit" in query or "after" in query))
