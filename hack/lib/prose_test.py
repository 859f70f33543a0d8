"""What hack/prose reads of a file, and that it fails where a word is wrong."""

import subprocess
import tempfile
import unittest
from pathlib import Path

import prose

SCRIPT = Path(__file__).resolve().parent.parent / "prose"

PAGE = """# Who rides

Not `rides`, ``a ` ride``, [a](ride.md) ride_along, rideAlong,
a spec.ride or --ride.

```sh
ride
```
The end.
"""
SOURCE = r'''//! A module.
/// Not `code`, nor [`Code`].
///
/// ```
/// let code = 1;
/// ```
fn code<'a>(text: &'a str) -> char {
    tracing::warn!(text, "a line of {code} of \"the\" log"); // and why
    assert_eq!(text, "code");
    let code = "no line of a log // nor this";
    let code = r#"nor "that"#;
    code.expect("there is one"); /* a block */
    '"'
}
'''
VALUES = """# What it is.
code: "a # b" # a value
color: "#fff"
"""


class Reads(unittest.TestCase):
    def reads(self, text, reader, words):
        found = reader(text)
        self.assertEqual(found.split(), words.split())
        # A word that is wrong is named where it stands.
        self.assertEqual([len(line) for line in found.split("\n")], [len(line) for line in text.split("\n")])
        for kept, line in zip(found.split("\n"), text.split("\n")):
            self.assertTrue(all(one in (" ", other) for one, other in zip(kept, line)), (kept, line))

    def test_a_page_without_its_code(self):
        self.reads(PAGE, prose.markdown, "# Who rides Not , , [a] a or The end.")

    def test_comments_and_messages_of_a_source(self):
        self.reads(SOURCE, prose.rust, "A module. Not , nor [ ]. a line of of the log and why there is one a block")

    def test_comments_of_values(self):
        self.reads(VALUES, prose.yaml, "What it is. b\" a value")


class Finds(unittest.TestCase):
    def run_on(self, name, text):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder).resolve() / name
            path.write_text(text)
            run = subprocess.run([SCRIPT, path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            return run.returncode, run.stdout.replace(str(path), name)

    def test_a_word_that_is_only_ours(self):
        found = self.run_on("a.rs", "fn f() {}\n/// Takes a passenger on.\n")
        self.assertEqual(found, (2, "a.rs:2:13: error: `passenger` should be `waiter`\n"))

    def test_a_misspelt_word(self):
        found = self.run_on("a.md", "It is\nrecieved.\n")
        self.assertEqual(found, (2, "a.md:2:1: error: `recieved` should be `received`\n"))

    def test_nothing_wrong(self):
        self.assertEqual(self.run_on("a.rs", "/// Takes a waiter on, as a `Passenger`.\nstruct Passenger;\n"), (0, ""))

    def test_a_file_that_it_cannot_read(self):
        status, said = self.run_on("a.txt", "A text.\n")
        self.assertEqual(status, 1)
        self.assertIn("neither Markdown nor Rust nor YAML", said)


if __name__ == "__main__":
    unittest.main()
