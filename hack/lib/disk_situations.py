"""Situations in which the super-disk was tried, per kernel and mdadm: a table of runs, and the book's page of it.

    disk_situations.py record JUNIT KERNEL MDADM PROGRAM DATE         adds a run of cargo-nextest to the table
    disk_situations.py record-walks TOTAL KERNEL MDADM PROGRAM DATE   adds random walks, of the report that disk-walk writes
    disk_situations.py page                                           prints the page
    disk_situations.py summary                                        prints a line for each kernel and mdadm

A row of the table is a scenario on one kernel with one mdadm. Its counts begin anew when the program has changed since.
"""

import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from collections import namedtuple
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "e2e/disk/tests"
TABLE = ROOT / "e2e/disk/situations.tsv"
HEAD = "# scenario\tkernel\tmdadm of Debian\ttried\twrong\tlast run\tprogram\n"

Row = namedtuple("Row", "tried wrong date program")

# The row of random walks, each seed of which is one.
WALKS = "random_walks"


def scenarios(folder):
    """The names of the scenarios of each file, in order: {file's stem: (first paragraph about it, [name, …])}."""
    found = {}
    for path in sorted(folder.glob("*.rs")):
        text = path.read_text(encoding="utf-8")
        about = " ".join(line[4:] for line in text.splitlines() if line.startswith("//! "))
        names = re.findall(r"^#\[test\]\nfn (\w+)", text, re.MULTILINE)
        if names:
            found[path.stem] = (about, names)
    return found


def read_table(path):
    """{(scenario, kernel, mdadm): Row}"""
    rows = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("#"):
                continue
            name, kernel, mdadm, tried, wrong, date, program = line.split("\t")
            rows[name, kernel, mdadm] = Row(int(tried), int(wrong), date, program)
    return rows


def write_table(path, rows):
    """Sorted, so that a difference between two commits is the runs between them."""
    lines = ["\t".join([*key, str(row.tried), str(row.wrong), row.date, row.program]) + "\n" for key, row in rows.items()]
    path.write_text(HEAD + "".join(sorted(lines)), encoding="utf-8")


def ended(junit):
    """{scenario: whether it passed}, of those that were run to an end: not those that a person has interrupted."""
    outcomes = {}
    for suite in ElementTree.parse(junit).getroot().iter("testsuite"):
        for case in suite.iter("testcase"):
            failure = case.find("failure")
            interrupted = failure is not None and "SIGINT" in failure.get("message", "")
            if case.find("skipped") is None and not interrupted:
                outcomes[case.get("name")] = failure is None and case.find("error") is None
    return outcomes


def record(rows, outcomes, kernel, mdadm, program, date):
    """Adds outcomes to the rows; how many there were."""
    for name, passed in outcomes.items():
        add(rows, (name, kernel, mdadm), 1, not passed, program, date)
    return len(outcomes)


def record_walks(rows, report, kernel, mdadm, program, date):
    """Adds the walks of a report, as disk-walk writes it; how many there were."""
    add(rows, (WALKS, kernel, mdadm), report["walks"], len(report["findings"]), program, date)
    return report["walks"]


def add(rows, key, tried, wrong, program, date):
    """Adds runs to a row, whose counts begin anew with another program."""
    before = rows.get(key)
    if before is None or before.program != program:
        before = Row(0, 0, date, program)
    rows[key] = Row(before.tried + tried, before.wrong + wrong, date, program)


def columns(rows):
    """Kernel and mdadm of each column: those that are known, and what was run besides."""
    known = {(kernel, mdadm) for kernel in ("6.1", "6.12") for mdadm in ("12", "13")}
    found = known | {(kernel, mdadm) for _, kernel, mdadm in rows}
    return sorted(found, key=lambda pair: [[int(part) for part in word.split(".")] for word in pair])


def page(found, rows):
    """The page of the book."""
    heads = columns(rows)
    counted = {name for _, names in found.values() for name in names}
    walks = [rows.get((WALKS, *head)) for head in heads]
    rows = {key: row for key, row in rows.items() if key[0] in counted}
    out = [
        "# Situations of the super-disk that were tried",
        "",
        "Each scenario of [the disk machine](testing.md#the-disk-machine), with how often it was run on each kernel with each mdadm, and"
        " how often it ended wrong: *tried / wrong*. Counts begin anew when the super-disk's program has changed. An empty field was"
        " not run. `hack/disk-machine record` fills the table from its own runs, and from nothing else.",
        "",
        "| all together | " + " | ".join(f"Linux {kernel}, mdadm of Debian {mdadm}" for kernel, mdadm in heads) + " |",
        "|---|" + "--:|" * len(heads),
        f"| of {len(counted)} scenarios | " + " | ".join(whole(rows, head) for head in heads) + " |",
        "| last run | " + " | ".join(last(rows, head) for head in heads) + " |",
        "| random walks: faults and commands over two volumes, each from a seed of its own | " + " | ".join(map(field, walks)) + " |",
    ]
    short = " | ".join(f"{kernel}, {mdadm}" for kernel, mdadm in heads)
    for stem, (about, names) in found.items():
        title = stem.replace("_", " ").capitalize()
        out += ["", f"## {title}", "", about, "", f"| scenario | {short} |", "|---|" + "--:|" * len(heads)]
        for name in names:
            fields = [field(rows.get((name, *head))) for head in heads]
            out.append(f"| {name.replace('_', ' ')} | " + " | ".join(fields) + " |")
    return "\n".join(out) + "\n"


def field(row):
    """Of one scenario."""
    return f"{row.tried} / {row.wrong}" if row else ""


def whole(rows, head):
    """Of one column: how many scenarios were tried, and how often in all."""
    of = [row for key, row in rows.items() if key[1:] == head]
    if not of:
        return ""
    return f"{len(of)} tried, {sum(row.tried for row in of)} / {sum(row.wrong for row in of)}"


def last(rows, head):
    """The newest date of one column."""
    return max((row.date for key, row in rows.items() if key[1:] == head), default="")


def main(words):
    """See the top."""
    match words:
        case ["record", junit, kernel, mdadm, program, date]:
            rows = read_table(TABLE)
            outcomes = ended(junit)
            known = {name for _, names in scenarios(SCENARIOS).values() for name in names}
            count = record(rows, {name: passed for name, passed in outcomes.items() if name in known}, kernel, mdadm, program, date)
            write_table(TABLE, rows)
            print(f"recorded {count} scenarios on Linux {kernel} with the mdadm of Debian {mdadm}")
        case ["record-walks", total, kernel, mdadm, program, date]:
            rows = read_table(TABLE)
            report = json.loads(Path(total).read_text(encoding="utf-8"))
            count = record_walks(rows, report, kernel, mdadm, program, date)
            write_table(TABLE, rows)
            print(f"recorded {count} walks on Linux {kernel} with the mdadm of Debian {mdadm}")
        case ["page"]:
            print(page(scenarios(SCENARIOS), read_table(TABLE)), end="")
        case ["summary"]:
            rows = read_table(TABLE)
            rows = {key: row for key, row in rows.items() if key[0] != WALKS}
            for head in columns(rows):
                print(f"Linux {head[0]}, mdadm of Debian {head[1]}: {whole(rows, head) or 'not run'}")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
