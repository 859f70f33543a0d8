"""What hack/book --check must find, each in a small repository of its own."""

import tempfile
import unittest
from pathlib import Path

import book

FILES = {
    "README.md": "# Title\n\nSee [the page](readstates/book/src/page.md#a-heading-of-it) and `hack/run --fast`.\n",
    "hack/run": "#!/bin/bash\n# --fast\n",
    "readstates/book/src/SUMMARY.md": "# Summary\n\n- [Page](page.md)\n- [Reasons](reference/conditions.md)\n"
    "- [Refusals](reference/refusals.md)\n",
    "readstates/book/src/page.md": "# A page\n\n## A `heading` of it\n\n[up](../../../README.md) [here](#a-page)\n\n"
    "```\n[no link](in-code.md)\n```\n\nNor `[this](one.md)`, and [elsewhere](https://example.org/x).\n",
    "readstates/book/src/reference/conditions.md": "# Reasons\n\n`Fine`, `Broken`\n",
    "readstates/book/src/reference/refusals.md": "# Refusals\n\n`E_BAD`, `not-yet`\n",
    "operator/api/src/conditions.rs": 'enum Reason {\n    /// Good.\n    Fine,\n    Broken,\n}\n',
    "operator/superdisk/src/model.rs": '#[strum(serialize = "E_BAD")]\n',
    "operator/superdisk/src/metrics.prom": 'superdisk_waiting_on{on="not-yet"} 0\n',
}
PAGE = "readstates/book/src/page.md"


class Check(unittest.TestCase):
    def problems(self, **changed):
        """The problems of the repository above with some files changed, added, or (None) left out."""
        others = book.OTHERS
        book.OTHERS = ["README.md"]
        self.addCleanup(setattr, book, "OTHERS", others)
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder).resolve()
            for name, text in {**FILES, **changed}.items():
                if text is not None:
                    (root / name).parent.mkdir(parents=True, exist_ok=True)
                    (root / name).write_text(text)
            return book.problems(root)

    def finds(self, problem, **changed):
        found = self.problems(**changed)
        self.assertEqual(len(found), 1, found)
        self.assertIn(problem, found[0])

    def test_nothing_wrong(self):
        self.assertEqual(self.problems(), [])

    def test_a_link_to_a_file_that_is_not_there(self):
        self.finds("page.md:1: the link gone.md leads to", **{PAGE: "[x](gone.md) # a heading of it\n# A heading of it\n"})

    def test_an_image_that_is_not_there(self):
        self.finds("drawing.svg", **{PAGE: "# A heading of it\n![x](drawing.svg)\n"})

    def test_a_link_by_definition(self):
        self.finds("gone.md", **{PAGE: "# A heading of it\n[x]\n\n[x]: gone.md\n"})

    def test_an_anchor_that_no_heading_has(self):
        self.finds("README.md:3", **{PAGE: "# Another heading\n"})

    def test_the_second_heading_of_the_same_words(self):
        self.assertEqual(self.problems(**{PAGE: "# A heading of it\n# A heading of it\n[x](#a-heading-of-it-1)\n"}), [])

    def test_a_link_out_of_the_repository(self):
        self.finds("leaves the repository", **{PAGE: "# A heading of it\n[x](../../../../x.md)\n"})

    def test_an_absolute_link(self):
        self.finds("is absolute", **{PAGE: "# A heading of it\n[x](/README.md)\n"})

    def test_a_page_that_the_summary_lacks(self):
        self.finds("more.md: is not in SUMMARY.md", **{"readstates/book/src/more.md": "# More\n"})

    def test_a_listed_page_that_is_not_there(self):
        summary = FILES["readstates/book/src/SUMMARY.md"] + "- [Gone](gone.md)\n"
        self.finds("SUMMARY.md:6: the link gone.md", **{"readstates/book/src/SUMMARY.md": summary})

    def test_a_page_beside_the_folder_of_pages(self):
        self.finds("belong into", **{"readstates/book/lost.md": "# Lost\n"})

    def test_a_readme_that_is_too_long(self):
        self.finds("has 254 lines", **{"README.md": FILES["README.md"] + "\n" * 251})

    def test_a_script_that_is_not_there(self):
        self.finds("hack/run does not exist", **{"hack/run": None})

    def test_a_flag_that_a_script_does_not_have(self):
        self.finds("hack/run has no --fast", **{"hack/run": "#!/bin/bash\n"})

    def test_a_reason_that_no_page_explains(self):
        self.finds("Fine is missing", **{"readstates/book/src/reference/conditions.md": "`Broken`\n"})

    def test_a_source_that_has_no_words_any_more(self):
        self.finds("no words", **{"operator/superdisk/src/model.rs": ""})


if __name__ == "__main__":
    unittest.main()
