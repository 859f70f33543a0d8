"""What the table of situations counts, and what its page says."""

import tempfile
import unittest
from pathlib import Path

import disk_situations as situations

JUNIT = """<testsuites>
  <testsuite name="e2e-disk::killed">
    <testcase name="cut" classname="e2e-disk::killed"/>
    <testcase name="hang" classname="e2e-disk::killed"><failure type="test failure"/></testcase>
    <testcase name="left_out" classname="e2e-disk::killed"><skipped/></testcase>
    <testcase name="interrupted" classname="e2e-disk::killed">
      <failure message="process aborted with signal 2 (SIGINT)" type="test abort"/>
    </testcase>
  </testsuite>
</testsuites>
"""
SOURCE = """//! The power goes
//! at any time.

#[test]
fn cut() -> Result<()> {}

fn helper() {}

#[test]
fn a_disk_hangs() {}
"""


class Situations(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.at = Path(self.folder.name)

    def write(self, name, text):
        path = self.at / name
        path.write_text(text, encoding="utf-8")
        return path

    def test_runs_are_counted_and_what_did_not_run_is_not(self):
        outcomes = situations.ended(self.write("junit.xml", JUNIT))
        self.assertEqual(outcomes, {"cut": True, "hang": False})
        rows = {}
        situations.record(rows, outcomes, "6.1", "12", "p1", "2026-01-01")
        situations.record(rows, outcomes, "6.1", "12", "p1", "2026-01-02")
        self.assertEqual(rows["cut", "6.1", "12"], (2, 0, "2026-01-02", "p1"))
        self.assertEqual(rows["hang", "6.1", "12"], (2, 2, "2026-01-02", "p1"))
        situations.record(rows, outcomes, "6.1", "12", "p2", "2026-01-03")
        self.assertEqual(rows["hang", "6.1", "12"], (1, 1, "2026-01-03", "p2"), "another program counts anew")
        self.assertNotIn(("cut", "6.12", "12"), rows)

    def test_walks_are_counted_by_their_seeds(self):
        rows = {}
        situations.record_walks(rows, {"walks": 20, "findings": []}, "6.1", "12", "p1", "2026-01-01")
        situations.record_walks(rows, {"walks": 3, "findings": ["seed 21: lost"]}, "6.1", "12", "p1", "2026-01-02")
        self.assertEqual(rows[situations.WALKS, "6.1", "12"], (23, 1, "2026-01-02", "p1"))
        page = situations.page({}, rows)
        self.assertIn(" from a seed of its own | 23 / 1 |  |  |  |\n", page)
        self.assertIn("| of 0 scenarios |  |  |  |  |\n", page)
        situations.record_walks(rows, {"walks": 1, "findings": []}, "6.1", "12", "p2", "2026-01-03")
        self.assertEqual(rows[situations.WALKS, "6.1", "12"][:2], (1, 0), "another program counts anew")

    def test_the_table_is_read_as_it_was_written(self):
        rows = {("cut", "6.12", "13"): situations.Row(3, 1, "2026-01-01", "p1")}
        path = self.at / "table.tsv"
        situations.write_table(path, rows)
        self.assertEqual(situations.read_table(path), rows)
        self.assertEqual(situations.read_table(self.at / "none"), {})

    def test_the_page_has_every_scenario_and_empty_fields_where_none_was_run(self):
        self.write("killed.rs", SOURCE)
        found = situations.scenarios(self.at)
        self.assertEqual(found, {"killed": ("The power goes at any time.", ["cut", "a_disk_hangs"])})
        rows = {
            ("cut", "6.12", "12"): situations.Row(3, 1, "2026-01-01", "p1"),
            ("renamed", "6.12", "12"): situations.Row(9, 9, "2026-01-09", "p1"),
        }
        page = situations.page(found, rows)
        self.assertIn("| cut |  |  | 3 / 1 |  |\n", page)
        self.assertIn("| a disk hangs |  |  |  |  |\n", page)
        self.assertIn("| of 2 scenarios |  |  | 1 tried, 3 / 1 |  |\n", page)
        self.assertIn("| last run |  |  | 2026-01-01 |  |\n", page)


if __name__ == "__main__":
    unittest.main()
