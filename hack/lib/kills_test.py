"""What hack/kills calls wrong, and what too little."""

import unittest

import kills_judge as judge

SOUND = {"lost": 0, "doubled": 0, "foreign": 0, "acknowledged": 5000, "users": 2}


def shown(version, **states):
    return judge.Shown(version, states)


def seen():
    """Each of two users was read three times."""
    all_reads = judge.Seen()
    for user in (1, 2):
        for version in (7, 9, 9):
            all_reads.take(user, all_reads.floor(user), shown(version, a=(5, version)))
    return all_reads


def run(**other):
    """A sound run, but for this."""
    parts = {"check": SOUND, "strikes": 3, "seen": seen(), "read_meanwhile": 60, "differences": [], "lost_users": 0}
    return judge.Run(**{**parts, "ended": [], "seconds": 60, "rate": 100, **other})


class Judging(unittest.TestCase):
    def test_a_run_in_which_nothing_is_wrong_is_sound(self):
        self.assertEqual(judge.word(run()), "SOUND")

    def test_everything_that_is_lost_or_doubled_is_wrong(self):
        for what in ("lost", "doubled", "foreign"):
            found = run(check={**SOUND, what: 1})
            self.assertEqual(judge.word(found), "WRONG", what)

    def test_what_members_say_that_they_lost_is_wrong(self):
        found = run(lost_users=1)
        self.assertEqual(judge.word(found), "WRONG")
        self.assertEqual(list(judge.wrong(found)), ["members say that changes of 1 users are lost"])

    def test_a_database_that_differs_and_a_member_that_does_not_end_in_order_are_wrong(self):
        self.assertEqual(judge.word(run(differences=["user 1"])), "WRONG")
        self.assertEqual(judge.word(run(ended=["chat-0"])), "WRONG")

    def test_a_run_that_did_too_little_says_so(self):
        few = {**SOUND, "acknowledged": 599}
        unread = {**SOUND, "users": 3}
        for little in (run(strikes=0), run(check=few), run(read_meanwhile=59), run(seen=judge.Seen()), run(check=unread)):
            self.assertEqual(judge.word(little), "TOO LITTLE")
            self.assertTrue(all(judge.lacks(little)))
        self.assertEqual(judge.word(run(strikes=0, lost_users=1)), "WRONG", "that comes first")


class Reads(unittest.TestCase):
    def test_what_was_read_is_read_again_and_more(self):
        self.assertEqual(seen().wrong, [])
        self.assertEqual(seen().reads, 6)

    def test_a_version_that_goes_back_and_a_channel_that_shows_less_are_wrong(self):
        for less in (shown(8, a=(5, 9)), shown(10, a=(4, 9)), shown(10, a=(5, 8)), shown(10)):
            reads = seen()
            reads.take(1, reads.floor(1), less)
            self.assertTrue(reads.wrong, less)
            self.assertEqual(judge.word(run(seen=reads)), "WRONG")

    def test_a_version_that_stands_for_two_contents_is_wrong(self):
        reads = seen()
        reads.take(1, reads.floor(1), shown(9, a=(5, 9), b=(1, 0)))
        self.assertEqual(len(reads.wrong), 1)

    def test_a_read_that_began_before_another_ended_may_show_less(self):
        reads = seen()
        floor = reads.floor(1)
        reads.take(1, reads.floor(1), shown(12, a=(6, 9)))
        reads.take(1, floor, shown(10, a=(5, 9)))
        self.assertEqual(reads.wrong, [])
        self.assertEqual(reads.floor(1).version, 12)

    def test_an_answer_is_taken_apart(self):
        state = {"channel_id": "3", "last_message_id": None, "mention_count": 2, "version": "7"}
        answer = {"user_id": "1", "version": "8", "partial": False, "read_states": [state]}
        self.assertEqual(judge.shown(answer), judge.Shown(8, {"3": (0, 2)}))


class Differences(unittest.TestCase):
    def test_users_are_compared_by_version_and_content_and_none_may_be_missing(self):
        before = {1: shown(7, a=(1, 0)), 2: shown(8), 3: shown(9)}
        self.assertEqual(list(judge.differences(before, dict(before))), [])
        after = {1: shown(7, a=(0, 0)), 2: shown(7), 4: shown(1)}
        self.assertEqual(len(list(judge.differences(before, after))), 4)


if __name__ == "__main__":
    unittest.main()
