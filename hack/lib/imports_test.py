"""What hack/imports takes for an import, and what for a break of the order."""

import contextlib
import io
import tempfile
import unittest
from pathlib import Path

import imports

SOURCES = {
    "lib.rs": "pub mod a;\nmod b;\nmod c;\nmod d;\n#[cfg(test)]\nmod fixtures;\n",
    "a.rs": """//! Not crate::d.
use crate::{
    b::{Deep, c::Not, self},
    c,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{d, fixtures};
    const TEXT: &str = "}";
}
""",
    "a/deep.rs": "use super::super::c;\nuse super::Own;\nfn f<'a>() -> &'a str { \"crate::d\" }\n",
    "b/mod.rs": "#[cfg(test)]\nuse crate::a;\npub mod one;\nfn sign() -> char { '\"' }\nuse std::fmt; /* crate::a */\n",
    "b/one.rs": "fn f() { let _ = crate::c::f(); } // crate::d\nuse super::two;\n",
    "c.rs": "use super::d::f;\n#[cfg(test)]\n#[path = \"c/odd.rs\"]\nmod odd;\n",
    "c/odd.rs": "use crate::a;\n",
    "d.rs": "pub(crate) fn f() {}\nmacro_rules! m { () => { $crate::a::f() } }\n",
    "fixtures.rs": "use crate::a;\n",
}
EDGES = {("a", "b"), ("a", "c"), ("b", "c"), ("c", "d")}
SETTINGS = """# A comment.
[src]
order =
    a
    b c
    d
back =
"""


class Imports(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for name, text in SOURCES.items():
            self.write(f"src/{name}", text)
        self.write("order.ini", SETTINGS)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def said(self):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            status = imports.main(self.root, self.root / "order.ini")
        return status, out.getvalue()

    def assert_fails(self, words):
        status, said = self.said()
        self.assertEqual(status, 1, said)
        self.assertIn(words, said)

    def test_comments_strings_and_tests_import_nothing(self):
        modules, found = imports.edges(list(imports.sources(self.root / "src")))
        self.assertEqual(modules, {"a", "b", "c", "d"})
        self.assertEqual(set(found), EDGES)

    def test_in_a_folder_of_a_crate_only_its_own_modules_count_however_they_are_named(self):
        files = [
            (["a"], "a.rs", "use super::b; use crate::c; use super::super::super::c; use super::super::inner::b;"),
            (["a", "deep"], "a/deep.rs", "use super::super::c; use super::d; use crate::outer::{inner::{e::{X, Y}, Z}, f};"),
            (["b"], "b.rs", "pub(in crate::outer::inner) fn x() {} use crate::{other::inner::a, outer::{f, inner::c}};"),
            *([[name], f"{name}.rs", ""] for name in "cdef"),
        ]
        _, found = imports.edges(files, ("outer", "inner"))
        self.assertEqual(set(found), {("a", "b"), ("a", "c"), ("a", "e"), ("b", "c")})
        self.assertEqual(found["a", "c"], "a/deep.rs")

    def test_each_path_of_a_tree_is_told_whole(self):
        code = "{a::{b, c::{self, D as E}}, f, g::*,}; h"
        found, end = imports.paths(code, 0)
        self.assertEqual([path for path in found if path], [["a", "b"], ["a", "c", "self"], ["a", "c", "D"], ["f"], ["g"]])
        self.assertEqual(code[end:], "; h")
        self.assertEqual(imports.paths("a::b(c::d, {e})", 0)[0], [["a", "b"]])

    def test_an_order_that_is_kept_passes(self):
        self.assertEqual(self.said(), (0, "src 4 modules, 4 imports, 0 against the order\n"))

    def test_an_import_against_the_order_fails_unless_it_is_listed(self):
        self.write("src/d.rs", "use crate::a;\n")
        self.assert_fails("d uses a (d.rs), which stands above it")
        self.write("order.ini", SETTINGS + "    d -> a\n")
        self.assertEqual(self.said()[0], 0)

    def test_a_listed_import_that_is_gone_fails(self):
        self.write("order.ini", SETTINGS + "    d -> a\n")
        self.assert_fails("d -> a is no import against the order any more")

    def test_a_module_without_a_place_fails_and_a_place_without_a_module(self):
        self.write("src/e.rs", "")
        self.assert_fails("the module e has no place in the order")
        (self.root / "src/e.rs").unlink()
        self.write("order.ini", SETTINGS.replace("    d\n", "    d gone d\n"))
        self.assert_fails("the order has gone, which is no module")
        self.assert_fails("the order has d twice")

    def test_a_pure_module_that_looks_at_a_clock_fails(self):
        self.write("order.ini", SETTINGS + "pure = d\n")
        self.assertEqual(self.said()[0], 0)
        effects = {
            "use std::time::{Duration, Instant};\nfn f() { let _ = Instant::now(); }\n": "Instant::now",
            "fn f(began: Instant) -> Duration { began.elapsed() }\n": ".elapsed(",
            "use std::fs;\nfn f() { let _ = fs::read(\"x\"); }\n": "fs::read",
            "async fn f() { g().await }\n": ".await",
        }
        for text, effect in effects.items():
            self.write("src/d.rs", text)
            self.assert_fails(f"d is to be pure, and d.rs has {effect}: take")
        self.write("src/d.rs", "#[cfg(test)]\nmod tests {\n    fn f() { Instant::now(); }\n}\n")
        self.assertEqual(self.said()[0], 0)
        self.write("order.ini", SETTINGS + "pure = d gone\n")
        self.assert_fails("gone is to be pure, and is no module")

    def test_a_list_that_cannot_be_read_says_so(self):
        self.write("order.ini", SETTINGS + "    d, a\n")
        with self.assertRaisesRegex(SystemExit, "d, a is no `module -> module`"):
            self.said()


if __name__ == "__main__":
    unittest.main()
