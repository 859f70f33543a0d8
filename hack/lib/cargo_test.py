"""What a checkout takes over of the compiled code of another: hack/lib/cargo.sh."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent
OLD = 1_000_000_000
SOURCES = {
    "Cargo.toml": "[workspace]\n",
    "a/same.rs": "fn same() {}\n",
    "a/with space.rs": "fn spaced() {}\n",
    "a/changed.rs": "fn before() {}\n",
    "a/path.rs": 'const PATH: &str = env!("CARGO_MANIFEST_DIR");\n',
    "a/text.json": "{}\n",
}


def checkout(folder: Path, sources: dict[str, str]) -> Path:
    """A repository with these files, all of them old."""
    for name, text in sources.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    subprocess.run(["git", "init", "--quiet", folder], check=True)
    subprocess.run(["git", "-C", folder, "add", "."], check=True)
    for name in sources:
        os.utime(folder / name, (OLD, OLD))
    return folder


def old_files(folder: Path) -> set[str]:
    return {name for name in SOURCES if (folder / name).stat().st_mtime == OLD}


class Claims(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.first = checkout(self.folder / "first", SOURCES)
        self.claim(self.first)
        for name in SOURCES:
            os.utime(self.first / name, (OLD, OLD))

    def claim(self, root: Path):
        script = '. "$1/common.sh"; . "$1/cargo.sh"; ROOT=$2; claim_target_folder'
        environment = os.environ | {"CARGO_TARGET_DIR": str(self.folder / "target")}
        subprocess.run(["bash", "-euo", "pipefail", "-c", script, "-", SCRIPTS, root], check=True, env=environment)

    def test_what_is_the_same_keeps_its_time_and_what_is_not_is_new(self):
        second = checkout(self.folder / "second", SOURCES | {"a/changed.rs": "fn after() {}\n"})
        self.claim(second)
        self.assertEqual(old_files(second), set(SOURCES) - {"a/changed.rs", "a/path.rs"})
        self.assertEqual((second / "a/changed.rs").read_text(), "fn after() {}\n")

    def test_a_file_that_was_edited_after_it_was_compiled_is_new(self):
        os.utime(self.first / "a/same.rs", (OLD + 60.5, OLD + 60.5))
        second = checkout(self.folder / "second", SOURCES)
        self.claim(second)
        self.assertEqual((second / "a/same.rs").stat().st_mtime, OLD + 60.5)

    def test_everything_is_new_when_the_last_checkout_is_gone(self):
        second = checkout(self.folder / "second", SOURCES)
        self.first.rename(self.folder / "elsewhere")
        self.claim(second)
        self.assertEqual(old_files(second), set())

    def test_a_checkout_that_comes_again_is_left_alone(self):
        self.claim(self.first)
        self.assertEqual(old_files(self.first), set(SOURCES))

    def test_a_file_that_only_one_of_them_has_is_new(self):
        (self.first / "a/text.json").unlink()
        second = checkout(self.folder / "second", SOURCES)
        self.claim(second)
        self.assertNotIn("a/text.json", old_files(second))


if __name__ == "__main__":
    unittest.main()
