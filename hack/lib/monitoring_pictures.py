"""Draws the dashboards as SVG, by asking Prometheus for every panel's expressions.

In: what ran under hack/monitoring, a folder, when it began, and which dashboards of which clusters; by default all but that
of super-disks, of which none runs there. Out: NAME.svg for each. These are not Grafana's pages: the same panels in the same
places with the same answers, drawn with lines and nothing else.
"""

import html
import json
import pathlib
import time

# Whose: of everything at once nothing can be seen.
CLUSTERS = {"cluster": "database|unstarted", "ring": "calm|killed"}
DASHBOARDS = pathlib.Path(__file__).parents[2] / "charts/readstates-operator/files/monitoring/dashboards"
COLOURS = ["#3b6fb6", "#d9822b", "#4a9d5b", "#b0413e", "#7d5ba6", "#8c6d46", "#c85a9e", "#6b7280", "#a3a02b", "#2b9aa3"]
COLUMN, ROW, GAP = 50, 30, 10
STEP = 5
MOST_LEGENDS = 6


def draw(world, folder, began, of=None):
    folder.mkdir(parents=True, exist_ok=True)
    for name, clusters in (of or CLUSTERS).items():
        dashboard = json.loads(filled((DASHBOARDS / f"{name}.json").read_text(), clusters))
        (folder / f"{name}.svg").write_text(page(world, dashboard, began))


def filled(dashboard, clusters):
    """A dashboard's text, of these clusters."""
    return dashboard.replace("$__rate_interval", "20s").replace("$namespace", ".*").replace("$cluster", clusters)


def page(world, dashboard, began):
    places = [panel["gridPos"] for panel in dashboard["panels"]]
    height = max(place["y"] + place["h"] for place in places) * ROW + 40
    body = "".join(panel_of(world, panel, began) for panel in dashboard["panels"])
    title = html.escape(dashboard["title"])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {24 * COLUMN} {height}" font-family="sans-serif" font-size="11">'
        f'<rect width="100%" height="100%" fill="#f4f5f7"/><text x="{GAP}" y="26" font-size="18" fill="#1f2933">{title}</text>'
        f'<g transform="translate(0 40)">{body}</g></svg>\n'
    )


def panel_of(world, panel, began):
    place = panel["gridPos"]
    width, height = place["w"] * COLUMN - GAP, place["h"] * ROW - GAP
    inner = number if panel["type"] == "stat" else lines
    return (
        f'<g transform="translate({place["x"] * COLUMN + GAP / 2} {place["y"] * ROW})">'
        f'<rect width="{width}" height="{height}" rx="4" fill="white" stroke="#d5d9e0"/>'
        f'<text x="10" y="18" font-size="12" font-weight="bold" fill="#1f2933">{html.escape(panel["title"])}</text>'
        f"{inner(world, panel, width, height, began)}</g>"
    )


def number(world, panel, width, height, _):
    found = world.query(panel["targets"][0]["expr"])
    values = [float(sample["value"][1]) for sample in found]
    if len(values) == 1:
        text = shown(values[0], unit(panel))
    else:
        text = f"{shown(min(values), unit(panel))} … {shown(max(values), unit(panel))}" if values else "no data"
    return f'<text x="{width / 2}" y="{height / 2 + 18}" text-anchor="middle" font-size="24" fill="#2f6f44">{text}</text>'


def lines(world, panel, width, height, began):
    ended, series = time.time(), []
    for target in panel["targets"]:
        found = world.query(target["expr"], "query_range", start=began, end=ended, step=STEP)
        for sample in found:
            points = [(float(at), float(value)) for at, value in sample["values"] if value not in ("NaN", "+Inf", "-Inf")]
            if points:
                series.append((legend(target["legendFormat"], sample["metric"]), points))
    series = [one for one in series if len(one[1]) > 1]
    if not series:
        return f'<text x="{width / 2}" y="{height / 2}" text-anchor="middle" fill="#9aa5b1">no data: nothing of it runs here</text>'
    left, top, right, bottom = 62, 30, width - 12, height - 46
    most = max(value for _, points in series for _, value in points) or 1
    least = min(0, min(value for _, points in series for _, value in points))
    x = lambda at: left + (at - began) / (ended - began) * (right - left)
    y = lambda value: bottom - (value - least) / (most - least) * (bottom - top)
    out = []
    for share in (0, 0.5, 1):
        value = least + share * (most - least)
        out.append(f'<line x1="{left}" x2="{right}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#e4e7eb"/>')
        out.append(f'<text x="{left - 5}" y="{y(value) + 4:.1f}" text-anchor="end" fill="#616e7c">{shown(value, unit(panel))}</text>')
    for minute in range(0, int(ended - began) // 60 + 1, 2):
        out.append(f'<text x="{x(began + 60 * minute):.1f}" y="{bottom + 14}" text-anchor="middle" fill="#616e7c">{minute} min</text>')
    series.sort(key=lambda one: -max(value for _, value in one[1]))
    for place, (name, points) in enumerate(series):
        colour = COLOURS[place % len(COLOURS)]
        for piece in pieces(points):
            path = " ".join(f"{x(at):.0f},{y(value):.1f}" for at, value in piece)
            out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.3"/>')
        if place < MOST_LEGENDS:
            across, down = place % 3, place // 3
            at = left + across * (right - left) / 3
            out.append(f'<rect x="{at}" y="{bottom + 21 + 13 * down}" width="9" height="3" fill="{colour}"/>')
            out.append(f'<text x="{at + 13}" y="{bottom + 26 + 13 * down}" font-size="9" fill="#3e4c59">{html.escape(name if len(name) < 30 else name[:28] + "…")}</text>')
    if len(series) > MOST_LEGENDS:
        out.append(f'<text x="{right}" y="18" text-anchor="end" font-size="9" fill="#616e7c">and {len(series) - MOST_LEGENDS} more</text>')
    return "".join(out)


def pieces(points):
    """Where nothing was scraped there is no line."""
    piece = []
    for point in points:
        if piece and point[0] - piece[-1][0] > 3 * STEP:
            yield piece
            piece = []
        piece.append(point)
    yield piece


def legend(text, labels):
    for name, value in labels.items():
        text = text.replace("{{" + name + "}}", value)
    return text


def unit(panel):
    return panel["fieldConfig"]["defaults"].get("unit", "none")


def shown(value, of):
    if of == "percentunit":
        return f"{100 * value:.3g} %"
    if of == "s":
        for size, name in ((3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms"), (1e-6, "µs")):
            if abs(value) >= size:
                return f"{value / size:.3g} {name}"
        return "0 s"
    for size, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g} {name}"
    return f"{value:.3g}"
