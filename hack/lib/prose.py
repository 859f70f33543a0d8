"""The prose of the repository: for hack/prose.

A mirror of the files that people read: every word of prose on the line and at the column where it stands, and spaces for
all else. Code is no prose: neither what stands in backticks or in a fenced block nor a word that looks like a name.
"""

import os
import re
import sys
from pathlib import Path

PAGES = [
    "README.md",
    ".github/*.md",
    "charts/*/README.md",
    "readstates/METRICS.md",
    "operator/METRICS.md",
    "operator/superdisk/README.md",
    "readstates/bench/README.md",
    "readstates/book/src/**/*.md",
    "charts/**/values.yaml",
]
SOURCES = ["e2e", "operator", "readstates"]

# The strings of these are read by people: in logs, in error chains, in what a failing test says.
MACROS = {
    *("trace", "debug", "info", "warn", "error", "bail", "anyhow", "ensure", "println", "eprintln"),
    *("panic", "unreachable", "assert", "assert_eq", "assert_ne"),
}
FUNCTIONS = {"error", "expect", "context", "with_context"}

CODE = re.compile(
    r"^[ \t]*(?P<fence>```+|~~~+).*?(?:^[ \t]*(?P=fence)|\Z)"  # a fenced block
    r"|(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)"  # what stands in backticks
    r"|(?<=\])\([^)\s]*\)|^[ \t]*\[[^\]\n]+\]:.*?$"  # where a link leads
    r"|<[^>\n]*>|https?://\S+"
    r"|(?<![^\s|()\[\]])[^\s|()\[\]]*?(?:_|::|\(\)|\w/\w|[a-z0-9][A-Z]|\w\.\w|--\w|\$)[^\s|()\[\]]*",  # names
    re.MULTILINE | re.DOTALL,
)
RUST = re.compile(
    r"(?P<comment>(?:[ \t]*//[^\n]*\n?)+)"
    r"|(?P<block>/\*.*?\*/)"
    r"|(?P<string>b?\"(?:\\.|[^\"\\])*\"|b?r(?P<hashes>#*)\".*?\"(?P=hashes))"
    r"|(?P<char>b?'(?:\\.[^']*|[^'\\])')"
    r"|(?P<call>\b\w+!?[(\[{])"
    r"|(?P<open>[(\[{])|(?P<close>[)\]}])",
    re.DOTALL,
)
YAML_COMMENT = re.compile(r"(?:^|(?<=\s))#.*$", re.MULTILINE)


def blank(text):
    """Spaces in its place."""
    return re.sub(r"[^\n]", " ", text)


def markdown(text):
    """The prose of a page, or of a comment."""
    return CODE.sub(lambda code: blank(code[0]), text)


def yaml(text):
    """The comments of a YAML file."""
    kept, end = [], 0
    for comment in YAML_COMMENT.finditer(text):
        kept += [blank(text[end : comment.start()]), comment[0].replace("#", " ")]
        end = comment.end()
    return markdown("".join([*kept, blank(text[end:])]))


def rust(text):
    """Comments, and the strings of what logs, fails, or asserts."""
    kept, end, calls = [], 0, []
    for token in RUST.finditer(text):
        kept.append(blank(text[end : token.start()]))
        end, word = token.end(), token[0]
        prose = blank(word)
        if token["comment"]:
            prose = markdown(re.sub(r"^[ \t]*//+!?", lambda mark: blank(mark[0]), word, flags=re.MULTILINE))
        elif token["block"]:
            prose = markdown(re.sub(r"[*/]", " ", word))
        elif token["string"] and any(calls) and " " in word.strip('" '):  # one word is a value
            prose = markdown(re.sub(r"\{[^{}]*\}|\\.|\"", lambda code: blank(code[0]), word))
        elif token["call"]:
            name = word[:-1]
            calls.append(name[:-1] in MACROS if name.endswith("!") else name in FUNCTIONS)
        elif token["open"]:
            calls.append(False)
        elif token["close"] and calls:
            calls.pop()
        kept.append(prose)
    return "".join([*kept, blank(text[end:])])


READERS = {".md": markdown, ".yaml": yaml, ".rs": rust}


def files(root):
    """What is read when no file is named."""
    found = {path for pattern in PAGES for path in root.glob(pattern)}
    for source in SOURCES:
        for folder, folders, names in os.walk(root / source):
            folders[:] = [name for name in folders if name != "target"]
            found |= {Path(folder) / name for name in names if name.endswith(".rs")}
    return sorted(found)


def mirror(to, paths):
    """Writes the prose of these files below `to`, under their absolute paths."""
    for path in paths:
        reader = READERS.get(path.suffix)
        if reader is None:
            sys.exit(f"{path}: neither Markdown nor Rust nor YAML")
        place = to / path.relative_to(path.anchor)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(reader(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    ROOT, TO, *NAMED = map(Path, sys.argv[1:])
    mirror(TO, [path.resolve() for path in NAMED] or files(ROOT.resolve()))
