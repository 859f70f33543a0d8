"""The imports between the modules of a crate or of a folder in it, and what pure modules must not use: for hack/imports.

In: the sources, and the order in which the modules may use each other. Out: what breaks that order. A module is a file or
a folder at the root of the crate, or of the folder; what only tests use does not count.
"""

import configparser
import re
import sys
from pathlib import Path

BLANK = re.compile(
    r"//[^\n]*|/\*.*?\*/"  # comments
    r"|b?r(?P<hashes>#*)\".*?\"(?P=hashes)|b?\"(?:\\.|[^\"\\])*\""  # strings
    r"|b?'(?:\\.[^']*|[^'\\])'",  # characters
    re.DOTALL,
)
FOR_TESTS = re.compile(r"#\[cfg\(test\)\]\s*")
TEST_MODULE = re.compile(r"(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*;")
# From where a path starts: the root, or some modules up.
START = re.compile(r"(?<![\w:$])(?:(?P<crate>crate)|(?P<up>super(?:\s*::\s*super)*))\s*::\s*(?=[\w{*])")
# A name of a path, and whether more of it follows.
NAME = re.compile(r"\s*(\w+)(\s*::\s*)?")
# What only those use that look or do: clocks, files, programs, threads, tasks, chance.
EFFECT = re.compile(
    r"\b(?:Instant|SystemTime|Timestamp|Zoned|clock)\s*::\s*now\b|\.\s*(?:elapsed\s*\(|await\b)"
    r"|\b(?:fs|process|rand|random|thread|tokio)\s*::\s*\w+|\bsleep\s*\("
)


def ends(code, at):
    """Where the item that begins there ends: behind its `;` or its block."""
    depth = 0
    while at < len(code):
        sign, at = code[at], at + 1
        depth += (sign in "([{") - (sign in ")]}")
        if depth == 0 and sign in ";}":
            # `use crate::{a, b};` ends with the semicolon.
            rest = re.match(r"\s*;", code[at:])
            return at + rest.end() if sign == "}" and rest else at
    return at


def without_tests(text):
    """The code of a file, without comments, strings and tests; and the modules in other files that are tests."""
    code = BLANK.sub(lambda found: " " if found[0].startswith("/") else '""', text)
    kept, modules, at = [], set(), 0
    for found in FOR_TESTS.finditer(code):
        if found.start() < at:
            continue
        module = TEST_MODULE.match(code, found.end())
        if module:
            modules.add(module[1])
        kept.append(code[at : found.start()])
        at = ends(code, found.end())
    return "".join([*kept, code[at:]]), modules


def paths(code, at):
    """The names of each path that begins there, `a::b` or `{a::{b, c}, d}`, and where these end."""
    names = []
    while name := NAME.match(code, at):
        names.append(name[1])
        at = name.end()
        if not name[2]:
            return [names], at
    if code[at : at + 1] != "{":
        return [names], at
    found, at = [], at + 1
    while True:
        inner, at = paths(code, at)
        found += [[*names, *path] for path in inner]
        end = re.compile("[,}]").search(code, at)
        at = end.end()
        if end[0] == "}":
            return found, at


def module_path(file):
    """The names of the module that a file holds."""
    parts = [*file.parts[:-1], file.stem]
    return parts[:-1] if parts[-1] in ("mod", "lib", "main") else parts


def sources(root):
    """Path, name and code of every file of a crate that is not only for tests."""
    codes, tests = {}, set()
    for file in sorted(root.rglob("*.rs")):
        name = file.relative_to(root)
        codes[name], modules = without_tests(file.read_text(encoding="utf-8"))
        tests |= {tuple([*module_path(name), module]) for module in modules}
    for name, code in codes.items():
        path = module_path(name)
        if path and not any(tuple(path[:end]) in tests for end in range(1, len(path) + 1)):
            yield path, str(name), code


def edges(files, inside=()):
    """The modules at the root of a crate or of a folder in it, and which of them uses which: `{(from, to): "file of one such
    use"}`. `inside` has the names of the folder's module."""
    found = {}
    modules = {path[0] for path, _, _ in files}
    for path, name, code in files:
        here = [*inside, *path]
        for start in START.finditer(code):
            ups = start["up"].count("super") if start["up"] else len(here)
            # A path that does not go up to the root stays in the module, or, in a module within a file, cannot tell.
            if ups < len(path):
                continue
            for names in paths(code, start.end())[0]:
                whole = [*here[: len(here) - ups], *names]
                folder, to = whole[: len(inside)], whole[len(inside) : len(inside) + 1]
                if folder == [*inside] and to and to[0] in modules and to[0] != path[0]:
                    found.setdefault((path[0], to[0]), name)
    return modules, found


def effects(files, pure):
    """What pure modules use that they must not, in sentences."""
    for module in sorted(pure - {path[0] for path, _, _ in files}):
        yield f"{module} is to be pure, and is no module: remove it"
    for path, name, code in files:
        effect = path[0] in pure and EFFECT.search(code)
        if effect:
            yield f"{path[0]} is to be pure, and {name} has {effect[0]}: take what it gives as an argument"


def problems(modules, found, order, back):
    """What breaks the order, in sentences. `order` begins with what uses all others."""
    place = {module: index for index, module in enumerate(order)}
    for module in sorted(modules - set(order)):
        yield f"the module {module} has no place in the order: add it above what it uses"
    for module in sorted(set(order) - modules):
        yield f"the order has {module}, which is no module: remove it"
    for module in sorted({module for module in order if order.count(module) > 1}):
        yield f"the order has {module} twice"
    known = {(one, other) for one, other in found if one in place and other in place}
    up = {(one, other) for one, other in known if place[one] > place[other]}
    for one, other in sorted(up - back):
        yield f"{one} uses {other} ({found[one, other]}), which stands above it in the order"
    for one, other in sorted(back - up):
        yield f"{one} -> {other} is no import against the order any more: remove it from the list"


def read_orders(text):
    """`{folder: (order, back, pure)}` of a settings file."""
    settings = configparser.ConfigParser(delimiters=("=",), comment_prefixes=("#",))
    settings.read_string(text)
    orders = {}
    for folder in settings.sections():
        order = settings[folder]["order"].split()
        lines = settings[folder].get("back", "").strip().splitlines()
        back = {tuple(part.strip() for part in line.split("->")) for line in lines}
        wrong = [edge for edge in back if len(edge) != 2]
        if wrong:
            raise SystemExit(f"failed to read the list of {folder}: {' -> '.join(wrong[0])} is no `module -> module`")
        orders[folder] = (order, back, set(settings[folder].get("pure", "").split()))
    return orders


def main(root, settings):
    """Checks all crates of the settings; says what is wrong."""
    wrong, counts = 0, []
    for folder, (order, back, pure) in read_orders(settings.read_text(encoding="utf-8")).items():
        if not (root / folder).is_dir():
            raise SystemExit(f"failed to look into {folder}: there is no such folder")
        files = list(sources(root / folder))
        parts = Path(folder).parts
        modules, found = edges(files, parts[parts.index("src") + 1 :])
        for problem in [*problems(modules, found, order, back), *effects(files, pure)]:
            print(f"{folder}: {problem}")
            wrong += 1
        counts.append(f"{folder} {len(modules)} modules, {len(found)} imports, {len(back)} against the order")
    if wrong:
        print(f"{wrong} problems; the order is in {settings.relative_to(root)}")
        return 1
    print("\n".join(counts))
    return 0


if __name__ == "__main__":
    ROOT = Path(__file__).resolve().parents[2]
    sys.exit(main(ROOT, ROOT / "hack/imports.ini"))
