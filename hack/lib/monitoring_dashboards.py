"""Draws the dashboards in half a minute, from two members under load and from what super-disks and agents print.

In: the folder of programs, a Prometheus, and a folder for the pictures. Out: NAME.svg for each dashboard, and exit status 1
if a panel shows nothing that has something to show in an ordinary life.
"""

import functools
import http.server
import json
import pathlib
import shutil
import sys
import tempfile
import threading
import time

from monitoring_pictures import DASHBOARDS, draw, filled
from monitoring_world import World

ROOT = pathlib.Path(__file__).parents[2]
RULES = ROOT / "charts/readstates-operator/files/monitoring/rules.yaml"
CLUSTER = "calm"
SECONDS = 25
SCRAPE = "2s"
# What is printed by what runs only in a cluster: as the tests of these programs have it.
PAGES = {"superdisk": ROOT / "operator/superdisk/src/metrics.prom", "agent": ROOT / "operator/agent/src/metrics.prom"}
# By dashboard, panels that are empty here: what the operator says of a cluster on Kubernetes, what is told when something
# goes wrong, and what follows from numbers that grow, which those of a page do not.
EMPTY = {
    "cluster": {"Conditions", "Waits for", "Refused, a second, by type", "Free on the fullest database disk"},
    "ring": {"Operator"},
    "super-disks": {
        *("Super-disks, by the operator", "Database nodes", "Since the oldest repair"),
        *("Repair waits for", "Messages that Cassandra drops, a second"),
        *("Time of a read", "Time of a write", "Last heartbeat"),
    },
}


def serve_pages(world, folder):
    """Beside the members, as pods of the same cluster."""
    for name, page in PAGES.items():
        (folder / name).mkdir(parents=True)
        shutil.copy(page, folder / name / "metrics")
    handler = functools.partial(Quiet, directory=folder)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name in PAGES:
        labels = {"namespace": "talk", "readstates_cluster": CLUSTER, "pod": f"{CLUSTER}-db-a-0", "__metrics_path__": f"/{name}/metrics"}
        world.targets.append({"targets": [f"127.0.0.1:{server.server_port}"], "labels": labels})
    return server


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Pages as text, without a log."""

    extensions_map = {"": "text/plain; version=0.0.4"}

    def log_message(self, *_):
        pass


def empty_panels(world, began):
    """By dashboard: the titles of panels of which no expression has an answer."""
    found = {}
    for name in EMPTY:
        dashboard = json.loads(filled((DASHBOARDS / f"{name}.json").read_text(), CLUSTER))
        asked = dict(path="query_range", start=began, end=time.time(), step=2)
        empty = [panel["title"] for panel in dashboard["panels"] if not any(world.query(target["expr"], **asked) for target in panel["targets"])]
        found[name] = set(empty)
        print(f"{name}: {len(dashboard['panels']) - len(empty)} of {len(dashboard['panels'])} panels show something")
    return found


def main(programs, prometheus, pictures):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="readstates-dashboards-"))
    world = World(programs, folder)
    try:
        members = [world.member(CLUSTER, f"{CLUSTER}-{n}", "--store", "memory", "--flush-interval", "2s", "--durability", "available") for n in range(2)]
        world.rebalance(CLUSTER)
        world.load(members, 200, 0.02)
        server = serve_pages(world, folder / "pages")
        world.prometheus(prometheus, RULES, SCRAPE, "127.0.0.1:9")
        began = time.time()
        time.sleep(SECONDS)
        draw(world, pathlib.Path(pictures), began, dict.fromkeys(EMPTY, CLUSTER))
        found = empty_panels(world, began)
        server.shutdown()
    finally:
        world.end()
        shutil.rmtree(folder, ignore_errors=True)
    status = 0
    for name, titles in found.items():
        for title in sorted(titles - EMPTY[name]):
            print(f"{name}: “{title}” shows nothing, though a cluster was serving")
            status = 1
        for title in sorted(EMPTY[name] - titles):
            print(f"{name}: “{title}” shows something: it need not be excused")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
