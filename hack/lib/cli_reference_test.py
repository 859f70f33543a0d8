"""What is read from --help, and what the pages make of it."""

import unittest
from unittest import mock

import cli_help
import cli_reference as reference

LONG = """Do it, with a store.

Both --times.

Usage: tool do [OPTIONS] --store <STORE> <--last <N>|--days <D>> <USER>

Arguments:
  <USER>
          Id of the user

Options:
      --store <STORE>
          Where it is: `memory`, or cql://HOST[,HOST...][:PORT]/KEYSPACE.

          A second paragraph

          [env: TOOL_STORE=]
          [default: [::]:9108]

      --mode <MODE>
          How

          Possible values:
          - fast: At once
          - slow: Later

          [default: fast]

      --last <N>
          The newest

      --days <D>
          The youngest

      --access <FILE>
          File. For example:

          callers:
          - name: a
            verbs: [read]

  -h, --help
          Print help

More:
  -c, --count <N>
          How many

Some text that
goes on.

Examples:
  First:
    tool do 1 \\
         --store memory

Exit status: 0 done.
"""
SHORT = """Reconcile.

Usage: tool run [OPTIONS] --image <IMAGE>

Options:
      --image <IMAGE>  Image of pods [env: IMAGE=]
      --level <LEVEL>  Log level [env: LEVEL=] [default: info,a::b=off] [possible values: info, warn]
  -h, --help           Print help
"""
GROUP = """Everything.

Usage: tool <COMMAND>

Commands:
  run   Reconcile
  do    Do it
  help  Print this message

Options:
  -h, --help  Print help
"""


class Read(unittest.TestCase):
    def setUp(self):
        self.long = cli_help.parse(LONG)
        self.options = {option.flag: option for option in cli_help.options(self.long)}

    def test_options_have_their_notes_and_values(self):
        self.assertEqual(["", "--store", "--mode", "--last", "--days", "--access", "--count"], list(self.options))
        store = self.options["--store"]
        self.assertEqual(("--store <STORE>", "TOOL_STORE", "[::]:9108", "required"), (store.name, store.env, store.default, store.required))
        self.assertEqual("A second paragraph", store.paragraphs[1])
        self.assertEqual([("fast", "At once"), ("slow", "Later")], self.options["--mode"].values)
        self.assertEqual("-c, --count <N>", self.options["--count"].name)

    def test_what_is_needed_is_known_from_the_usage(self):
        needed = {option.name: option.required for option in cli_help.options(self.long)}
        self.assertEqual("required", needed["<USER>"])
        self.assertEqual("this or another", needed["--last <N>"])
        self.assertEqual("this or another", needed["--days <D>"])
        self.assertEqual("", needed["--mode <MODE>"])

    def test_an_example_keeps_its_lines(self):
        self.assertEqual(["callers:", "- name: a", "  verbs: [read]"], self.options["--access"].verbatim)
        self.assertEqual(["File. For example:"], self.options["--access"].paragraphs)

    def test_what_follows_the_options(self):
        wanted = [
            cli_help.Text("Some text that goes on."),
            cli_help.Text("First:"),
            cli_help.Verbatim(("tool do 1 \\", "     --store memory"), "sh"),
            cli_help.Text("Exit status: 0 done."),
        ]
        self.assertEqual(wanted, self.long.ending)

    def test_short_help_has_the_same_notes(self):
        image, level = cli_help.options(cli_help.parse(SHORT))
        self.assertEqual(("IMAGE", None, "required", ["Image of pods"]), (image.env, image.default, image.required, image.paragraphs))
        self.assertEqual(("LEVEL", "info,a::b=off", "", ["Log level"]), (level.env, level.default, level.required, level.paragraphs))
        self.assertEqual([("info", ""), ("warn", "")], level.values)

    def test_a_group_names_its_commands(self):
        self.assertEqual(["run", "do"], cli_help.parse(GROUP).commands)


class Pages(unittest.TestCase):
    def test_names_become_code_once(self):
        said = reference.prose("With --once and `--all`: cql://HOST[,H][:PORT]/K. *.x")
        self.assertEqual("With `--once` and `--all`: `cql://HOST[,H][:PORT]/K`. \\*.x", said)
        self.assertEqual("`a --b` of `OTEL_X_Y`", reference.prose("`a --b` of OTEL_X_Y"))

    def test_a_page_has_every_command_and_option(self):
        said = {"tool": GROUP, "tool run": SHORT, "tool do": LONG}
        with (
            mock.patch.object(reference, "help_of", lambda _, words: cli_help.parse(said[" ".join(words)])),
            mock.patch.dict(reference.PROGRAMS, {"tool": ("cli-tool", "A tool.")}),
        ):
            page = "\n".join(reference.program_page(None, "tool"))
        self.assertIn("## tool run", page)
        self.assertIn("| `--image <IMAGE>`<br>`IMAGE` | required | Image of pods. |", page)
        self.assertIn("| `--level <LEVEL>`<br>`LEVEL` | `info,a::b=off` | Log level.<br>`info`<br>`warn` |", page)
        self.assertIn("| `--mode <MODE>` | `fast` | How.<br>`fast`: At once.<br>`slow`: Later. |", page)
        self.assertIn("More:\n| option", page)
        self.assertIn("| `--access <FILE>` |  | File. |", page)
        self.assertIn("Example of `--access`:\n```yaml\ncallers:", page)
        self.assertNotIn("--help` |", page)

    def test_scripts_are_those_with_a_comment(self):
        names = [name for name, lines in reference.scripts() if lines]
        self.assertIn("hack/test", names)
        self.assertIn("hack/fuzz", names)


if __name__ == "__main__":
    unittest.main()
