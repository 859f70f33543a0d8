"""A round with the client that openapi-python-client makes: the requests of ../README.md, and a line for each answer."""

import datetime
import sys

from generated import Client
from generated.api.mentions import mention
from generated.api.read_states import (
    ack_pins,
    ack_read_state,
    ack_read_states,
    delete_read_state,
    get_read_state,
    get_summary,
    list_read_states,
)
from generated.models import AckBulkItem, AckBulkRequest, AckRequest, MentionsRequest, PinsAckRequest, Problem

CHANNEL = "9223372036854775808"
LAST = "18446744073709551615"
BEFORE_LAST = "18446744073709551614"
MOST = 4294967295


def given(answer):
    if answer is None or isinstance(answer, Problem):
        raise SystemExit(f"refused: {answer}")
    return answer


def word(value):
    return "none" if value is None else str(value).lower()


def shown(state):
    pin = state.last_pin_timestamp
    at = "none" if pin is None else round(pin.timestamp() * 1000)
    return (
        f"channel={state.channel_id} last={word(state.last_message_id)} mentions={state.mention_count}"
        f" flags={state.flags} viewed={state.last_viewed} pin={at}"
    )


def main(url, user):
    client = Client(base_url=url)
    request = AckRequest(message_id="1", manual=True, mention_count=MOST, flags=MOST, last_viewed=65535)
    ack = given(ack_read_state.sync(user, CHANNEL, client=client, body=request))
    print(f"ack applied={word(ack.applied)} {shown(ack.read_state)}")

    def mentioned(channel, message, count):
        request = MentionsRequest(channel_id=channel, message_id=message, user_ids=[user], count=count)
        return mention.sync(client=client, body=request)

    answer = given(mentioned(CHANNEL, BEFORE_LAST, MOST))
    print(f"mention applied={answer.applied} ignored={answer.ignored} failed={len(answer.failed)}")
    print(f"get {shown(given(get_read_state.sync(user, CHANNEL, client=client)))}")

    at = datetime.datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=datetime.timezone.utc)
    pin = given(ack_pins.sync(user, CHANNEL, client=client, body=PinsAckRequest(last_pin_timestamp=at)))
    print(f"pin applied={word(pin.applied)} {shown(pin.read_state)}")

    items = [AckBulkItem(channel_id=LAST, message_id=LAST), AckBulkItem(channel_id=CHANNEL, message_id=LAST)]
    bulk = given(ack_read_states.sync(user, client=client, body=AckBulkRequest(read_states=items)))
    print("bulk", *(f"{result.channel_id}={word(result.applied)}" for result in bulk.results))

    given(mentioned("5", "6", MOST))
    states = given(list_read_states.sync(user, client=client))
    print(f"list partial={word(states.partial)} user={word(states.user_id == user)}")
    for state in states.read_states:
        print(f"list {shown(state)}")

    summary = given(get_summary.sync(user, client=client))
    print(f"summary mentions={summary.mention_count} channels={summary.channels_with_mentions}")

    absent = get_read_state.sync(user, "4", client=client)
    print(f"absent status={absent.status} type={word(absent.type_)}")
    zero = mentioned("5", "7", 0)
    print(f"zero status={zero.status} pointer={zero.pointer}")

    deleted = given(delete_read_state.sync(user, CHANNEL, client=client))
    since = given(list_read_states.sync(user, client=client, since=states.version))
    print(f"delete applied={word(deleted.applied)} partial={word(since.partial)} deleted={' '.join(since.deleted)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
