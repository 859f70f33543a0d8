"""Holds rules, dashboards and runbooks against the programs and against each other.

In: the working tree. Out: problems, one a line; and, in the folder that is given, the expressions of the dashboards as a
rule file, so that promtool parses them, too.
"""

import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).parents[2]
MONITORING = ROOT / "charts/readstates-operator/files/monitoring"
PAGES = ROOT / "readstates/book/src/operations/alerts"
WORDS = ["Meaning", "Impact", "Diagnosis", "Mitigation"]
# What a Prometheus brings along.
OF_PROMETHEUS = {"up"}
# Labels that the PodMonitors give.
TARGET_LABELS = {"readstates_cluster"}
# Labels with values of ours.
CLOSED_LABELS = ["condition", "reason", "type", "state", "limit", "leg", "on", "status", "method"]


def metrics():
    """Every series there is: of the service and the operator by their documented lists, of agents by the names in their
    sources."""
    names = set(OF_PROMETHEUS)
    for page in ("readstates/METRICS.md", "operator/METRICS.md"):
        for name, kind in re.findall(r"^\| `(\w+)` \| (\w+) \|", (ROOT / page).read_text(), re.M):
            names |= {name + part for part in ("_bucket", "_sum", "_count")} if kind == "histogram" else {name}
    for source, prefix in (
        ("operator/agent/src/metrics.rs", "readstates_"),
        ("operator/superdisk/src/metrics.rs", "superdisk_"),
    ):
        names |= set(re.findall(rf'"({prefix}\w+)"', (ROOT / source).read_text()))
    return names


def rules():
    """(name, kind, expression) of each rule. The file is YAML of a shape that is checked by promtool."""
    text = (MONITORING / "rules.yaml").read_text()
    found = []
    for block in re.split(r"\n      - (?=alert:|record:)", text)[1:]:
        kind, name = re.match(r"(alert|record): (\S+)", block).groups()
        expr = re.search(r"\n        expr: (?:>-\n((?:          .*\n?)+)|(.*))", block)
        found.append((name, kind, " ".join((expr[1] or expr[2]).split()), block))
    return found


def dashboards():
    for file in sorted((MONITORING / "dashboards").glob("*.json")):
        dashboard = json.loads(file.read_text())
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                yield f'{file.name}: {panel["title"]}', target["expr"]
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                yield f'{file.name}: variable {variable["name"]}', re.match(r"label_values\((.*), \w+\)", variable["definition"])[1]


def sources():
    crates = ["readstates", "readstates/api", "operator", "operator/agent", "operator/api", "operator/superdisk"]
    folders = [ROOT / crate / "src" for crate in crates]
    return "\n".join(file.read_text() for folder in folders for file in folder.rglob("*.rs"))


def check_expression(where, expr, known, words):
    bare = re.sub(r'"[^"]*"', '""', expr)
    for name in set(re.findall(r"\b(?:readstates|superdisk|process)(?:_\w+|:[\w:]+)", bare)):
        if name not in known | TARGET_LABELS:
            yield f"{where}: there is no metric {name}"
    for label, operator, value in re.findall(r'(\w+)(=~|!=|=|!~)"([^"]*)"', expr):
        if label not in CLOSED_LABELS:
            continue
        for each in value.split("|") if "~" in operator else [value]:
            # A class of statuses, or of routes.
            if re.search(r"[.*]", each) or f'"{each}"' in words or each in CONDITION_NAMES:
                continue
            yield f'{where}: nothing has {label}="{each}"'


def check_runbooks(alerts):
    sections = {}
    for page in sorted(PAGES.glob("*.md")):
        if page.name != "index.md":
            for section in re.split(r"\n(?=## )", page.read_text())[1:]:
                title = section.split("\n")[0].removeprefix("## ")
                sections[title] = (page.name, section)
    for alert, block in alerts.items():
        if alert not in sections:
            yield f"{alert} has no section in {PAGES.relative_to(ROOT)}"
            continue
        page, section = sections[alert]
        said = re.findall(r"^\*\*(\w+)\*\*: ", section, re.M)
        if said != WORDS:
            yield f"{page}: {alert} says {said}; it has to say {WORDS}"
        url = re.search(r"runbook_url: (\S+)", block)
        wanted = f"/{PAGES.relative_to(ROOT)}/{page}#{alert.lower()}"
        if not url or not url[1].endswith(wanted):
            yield f"{alert}: its runbook_url does not end with {wanted}"
        for annotation in ("summary", "description"):
            if f"\n          {annotation}: " not in block:
                yield f"{alert} has no {annotation}"
        if not re.search(r"severity: (critical|warning|info)\b", block):
            yield f"{alert}: severity is critical, warning or info"
    for title in sorted(set(sections) - set(alerts)):
        yield f"{sections[title][0]}: {title} is no alert"


CONDITIONS = (ROOT / "operator/api/src/conditions.rs").read_text()
# Types and reasons of conditions are the names of their variants.
CONDITION_NAMES = {
    word
    for enum in ["ConditionType", "Reason"]
    for word in re.findall(r"^    (\w+),$", re.search(rf"pub enum {enum} \{{(.*?)\n\}}", CONDITIONS, re.S)[1], re.M)
}


def main(folder):
    known, words, problems = metrics(), sources(), []
    found = rules()
    known |= {name for name, kind, _, _ in found if kind == "record"}
    for name, _, expr, _ in found:
        problems += check_expression(name, expr, known, words)
    panels = list(dashboards())
    for where, expr in panels:
        problems += check_expression(where, expr, known, words)
    problems += check_runbooks({name: block for name, kind, _, block in found if kind == "alert"})
    parsed = [
        {"record": f"panel:{place}", "expr": expr.replace("$__rate_interval", "5m").replace("$namespace", "n").replace("$cluster", "c")}
        for place, (_, expr) in enumerate(panels)
    ]
    groups = {"groups": [{"name": "panels", "rules": parsed}]}
    (pathlib.Path(folder) / "panels.yaml").write_text(json.dumps(groups))
    alerts = sum(kind == "alert" for _, kind, _, _ in found)
    print(*problems, sep="\n", end="\n" if problems else "")
    print(f"{alerts} alerts with runbooks, {len(found) - alerts} recording rules, {len(panels)} expressions of dashboards, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
