"""Checks the README and the book, or copies the book's pages for mdBook. Called by hack/book.

    book.py check ROOT                  prints what is wrong, one line each; exit status 1 when something is
    book.py pages ROOT FOLDER SOURCE    writes the pages to FOLDER; links that leave the book begin with SOURCE there
"""

import os
import re
import shutil
import sys
from pathlib import Path

README_LINES = 250
BOOK = Path("readstates/book/src")
# Pages outside of the book whose links are checked as well.
OTHERS = [
    "README.md",
    "charts/readstates-operator/README.md",
    "operator/METRICS.md",
    "operator/superdisk/README.md",
    "readstates/METRICS.md",
    "readstates/bench/README.md",
    "readstates/bench/report/report.md",
]
# Words that the code gives to users, and the page that must explain each.
WORDS = [
    ("operator/api/src", "*.rs", re.compile(r"^    (?P<word>[A-Z]\w+),$", re.MULTILINE), "enum Reason", "reference/conditions.md"),
    ("operator/superdisk/src", "*.rs", re.compile(r'(?:Self::\w+ => |serialize = )"(?P<word>E_[A-Z0-9_]+)"'), "", "reference/refusals.md"),
    # Conditions of a super-disk, and what its repair waits for: the metrics have a line for each.
    ("operator/superdisk/src", "metrics.prom", re.compile(r'^superdisk_(?:state|waiting_on)\{\w+="(?P<word>[a-z-]+)"', re.MULTILINE), "", "reference/refusals.md"),
]

FENCE = re.compile(r"^\s*(```|~~~)")
INLINE_CODE = re.compile(r"`[^`]*`")
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
DEFINITION = re.compile(r"^\[[^\]]+\]:\s+<?(\S+?)>?\s*$")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")
SCRIPT = re.compile(r"\bhack/([a-z][a-z0-9-]*)(?![a-z0-9./-])([^`#\n]*)")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def prose(text):
    """Yields (line number, line) of everything that is not in a fenced block of code."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            yield number, line


def slug(heading):
    """The anchor of a heading, as mdBook and code hosts make it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", text.strip().lower()))


def anchors(page):
    found, counts = set(), {}
    for _, line in prose(page.read_text()):
        if heading := HEADING.match(line):
            name = slug(heading[1])
            seen = counts.get(name, 0)
            counts[name] = seen + 1
            found.add(f"{name}-{seen}" if seen else name)
    return found


def links(text):
    """Yields (line number, target) of every link and image that names a file or an anchor."""
    for number, line in prose(text):
        bare = INLINE_CODE.sub("", line)
        targets = LINK.findall(bare) + DEFINITION.findall(bare)
        for target in targets:
            if not re.match(r"[a-z][a-z0-9+.-]*:", target):
                yield number, target


def broken(root, page, target):
    """What is wrong with a link, or None."""
    path, _, anchor = target.partition("#")
    if path.startswith("/"):
        return "is absolute; write it relative to the page"
    file = Path(os.path.normpath(page.parent / path)) if path else page
    if root not in (file, *file.parents):
        return "leaves the repository"
    if not file.exists():
        return f"leads to {file.relative_to(root)}, which does not exist"
    if anchor and file.suffix == ".md" and anchor not in anchors(file):
        return f"leads to a heading that {file.relative_to(root)} does not have"
    return None


def check_links(root, pages):
    for page in pages:
        for number, target in links(page.read_text()):
            if problem := broken(root, page, target):
                yield f"{page.relative_to(root)}:{number}: the link {target} {problem}"


def check_commands(root, pages):
    """Scripts of hack/ that pages name, and the flags given to them on the same line."""
    for page in pages:
        for number, line in enumerate(page.read_text().splitlines(), 1):
            for name, rest in SCRIPT.findall(line):
                where = f"{page.relative_to(root)}:{number}: hack/{name}"
                script = root / "hack" / name
                if not script.exists():
                    yield f"{where} does not exist"
                elif script.is_file():
                    text = script.read_text()
                    yield from (f"{where} has no {flag}" for flag in FLAG.findall(rest) if flag not in text)


def check_summary(root):
    source = root / BOOK
    listed = [target for _, target in links((source / "SUMMARY.md").read_text())]
    present = {str(page.relative_to(source)) for page in source.rglob("*.md")} - {"SUMMARY.md"}
    for page in sorted(present - set(listed)):
        yield f"{BOOK / page}: is not in SUMMARY.md"
    for page in sorted({page for page in listed if listed.count(page) > 1}):
        yield f"{BOOK / 'SUMMARY.md'}: lists {page} more than once"
    # A page that is listed and does not exist is a broken link of SUMMARY.md.
    for stray in sorted((root / BOOK).parent.glob("*.md")):
        yield f"{stray.relative_to(root)}: pages of the book belong into {BOOK}"


def check_words(root):
    for folder, files, pattern, mark, page in WORDS:
        words = set()
        for file in sorted((root / folder).rglob(files)):
            text = file.read_text()
            if mark in text:
                words |= {found["word"] for found in pattern.finditer(text)}
        if not words:
            yield f"{folder}: no words for {page} were found there; correct WORDS in hack/lib/book.py"
            continue
        explained = set(re.findall(r"`([\w-]+)`", (root / BOOK / page).read_text()))
        # The statuses of conditions are in the same file.
        for word in sorted(words - explained - {"True", "False", "Unknown"}):
            yield f"{BOOK / page}: {word} is missing, which {folder} has"


def check_length(root):
    lines = len((root / "README.md").read_text().splitlines())
    if lines > README_LINES:
        yield f"README.md: has {lines} lines, of {README_LINES} at most; move something into the book"


def pages_of(root):
    """The pages of the book, and all that are checked."""
    pages = sorted((root / BOOK).rglob("*.md"))
    return pages, [root / page for page in OTHERS] + pages


def problems(root):
    pages, checked = pages_of(root)
    return [
        *check_length(root),
        *check_summary(root),
        *check_links(root, checked),
        *check_commands(root, [root / "README.md", *pages]),
        *check_words(root),
    ]


def check(root):
    found = problems(root)
    print(*found, sep="\n", end="\n" if found else "")
    pages, checked = pages_of(root)
    count = sum(1 for page in checked for _ in links(page.read_text()))
    print(f"{len(pages)} pages of the book, {count} links in {len(checked)} files, {len(found)} problems")
    return 1 if found else 0


def write_pages(root, folder, source):
    shutil.copytree(root / BOOK, folder, dirs_exist_ok=True)
    for page in folder.rglob("*.md"):
        original = root / BOOK / page.relative_to(folder)

        def outside(found):
            path, _, anchor = found[1].partition("#")
            file = Path(os.path.normpath(original.parent / path))
            if not path or re.match(r"[a-z][a-z0-9+.-]*:", path) or root / BOOK in file.parents:
                return found[0]
            # Pictures come along: a code host serves them as pages.
            if file.suffix in (".svg", ".png"):
                copy = folder / "outside" / file.name
                copy.parent.mkdir(exist_ok=True)
                shutil.copy(file, copy)
                return f"]({os.path.relpath(copy, page.parent)})"
            return f"]({source}/{file.relative_to(root)}{'#' + anchor if anchor else ''})"

        page.write_text(LINK.sub(outside, original.read_text()))


if __name__ == "__main__":
    if sys.argv[1] == "check":
        sys.exit(check(Path(sys.argv[2]).resolve()))
    write_pages(Path(sys.argv[2]).resolve(), Path(sys.argv[3]).resolve(), sys.argv[4].rstrip("/"))
