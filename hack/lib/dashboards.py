"""The three dashboards for Grafana, written out of the table below.

In: the name of a dashboard. Out: its JSON, as Grafana imports it and as the chart puts it into a ConfigMap.
`hack/generate` writes the files; `hack/monitoring --check` holds every expression against the metrics that there are.
"""

import json
import sys

# What a panel is about: the clusters and pods chosen at the top of the page.
OF = 'namespace=~"$namespace",readstates_cluster=~"$cluster"'
OF_OPERATOR = 'namespace=~"$namespace",name=~"$cluster"'
USERS = 'route=~"/v1/users/.*|/v1/mentions|/v1/batch"'
CONDITIONS = {"-1": ("Unknown", "#808080"), "0": ("False", "#4c78a8"), "1": ("True", "#f2a900")}


def graph(title, unit, *queries, note="", stacked=False):
    """Lines over time: (expression, legend) each."""
    custom = {"fillOpacity": 25 if stacked else 8, "lineWidth": 1, "showPoints": "never"}
    if stacked:
        custom["stacking"] = {"mode": "normal"}
    return panel("timeseries", title, note, queries, {"defaults": {"unit": unit, "min": 0, "custom": custom}})


def states(title, words, *queries, note=""):
    """What something is over time, as coloured bars. `words`: value → (text, colour)."""
    options = {value: {"text": text, "color": colour} for value, (text, colour) in words.items()}
    defaults = {"mappings": [{"type": "value", "options": options}]}
    return panel("state-timeline", title, note, queries, {"defaults": defaults})


def number(title, unit, *queries, note="", red_from=None):
    """The last value, big."""
    steps = [{"color": "green", "value": None}]
    if red_from is not None:
        steps.append({"color": "red", "value": red_from})
    defaults = {"unit": unit, "thresholds": {"mode": "absolute", "steps": steps}}
    return panel("stat", title, note, queries, {"defaults": defaults})


def panel(kind, title, note, queries, config):
    targets = [
        {"refId": chr(ord("A") + place), "expr": expr, "legendFormat": legend, "range": kind != "stat", "instant": kind == "stat"}
        for place, (expr, legend) in enumerate(queries)
    ]
    source = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "type": kind,
        "title": title,
        "description": note,
        "datasource": source,
        "targets": targets,
        "fieldConfig": {**config, "overrides": []},
        "options": {},
    }


def quantile(share, family, by, more=""):
    rate = f"sum by ({by}, le) (rate({family}_bucket{{{OF}{more}}}[$__rate_interval]))"
    return f"histogram_quantile({share}, {rate})"


def rate(metric, by, more=""):
    return f"sum by ({by}) (rate({metric}{{{OF}{more}}}[$__rate_interval]))"


DASHBOARDS = {
    "cluster": (
        "Readstates: cluster",
        [
            number("Members that serve", "none", (f"sum(readstates_lease_valid{{{OF}}})", "")),
            number("Requests failed, of all", "percentunit", (f"readstates:errors:ratio_rate5m{{{OF}}}", ""), red_from=0.001),
            number("Changes slower than 10 ms", "percentunit", (f"readstates:slow_changes:ratio_rate5m{{{OF}}}", ""), red_from=0.01),
            number("A crash now loses changes of", "s", (f"readstates:unwritten_seconds:max{{{OF}}}", ""), red_from=90),
            states(
                "Conditions",
                CONDITIONS,
                (f"readstates_cluster_condition{{{OF_OPERATOR}}}", "{{condition}}"),
                note="As the operator tells them. Available should be True, Degraded and TakenOver False.",
            ),
            graph("Waits for", "s", (f"readstates_cluster_waiting_seconds{{{OF_OPERATOR}}}", "{{reason}}")),
            graph("Requests a second, by route", "reqps", (rate("readstates_requests_total", "method, route", f",{USERS}"), "{{method}} {{route}}")),
            graph("Requests failed, a second", "reqps", (rate("readstates_requests_total", "status", ',status=~"5..|429"'), "{{status}}")),
            graph(
                "Time of a change",
                "s",
                *[(quantile(q, "readstates_request_seconds", "namespace", ',method="POST",route=~"/v1/users/.*"'), f"p{100 * q:g}") for q in (0.5, 0.99, 0.999)],
            ),
            graph(
                "Time of a read",
                "s",
                *[(quantile(q, "readstates_request_seconds", "namespace", ',method="GET"'), f"p{100 * q:g}") for q in (0.5, 0.99, 0.999)],
            ),
            graph("Refused, a second, by type", "reqps", (rate("readstates_refusals_total", "type") + " > 0", "{{type}}")),
            graph("Limits in use", "percentunit", (f'max by (limit) (readstates_limit_in_use{{{OF}}} / (readstates_limit{{{OF}}} > 0))', "{{limit}}")),
            graph(
                "Users found in memory",
                "percentunit",
                (
                    f"sum(rate(readstates_cache_hits_total{{{OF}}}[$__rate_interval])) / (sum(rate(readstates_cache_hits_total{{{OF}}}[$__rate_interval]))"
                    f" + sum(rate(readstates_cache_misses_total{{{OF}}}[$__rate_interval])))",
                    "of those asked for",
                ),
            ),
            graph(
                "States in memory",
                "short",
                (f"sum(readstates_cached_states{{{OF}}})", "cached"),
                (f"sum(readstates_capacity_states{{{OF}}})", "capacity"),
                (f"sum(readstates_dirty_states{{{OF}}})", "not written"),
            ),
            graph(
                "Age of the oldest change that is not written",
                "s",
                (f"readstates_oldest_dirty_seconds{{{OF}}}", "{{pod}}"),
                (f"max(readstates_flush_interval_seconds{{{OF}}})", "flush interval"),
            ),
            graph("Blocks written, a second", "ops", (rate("readstates_flushes_total", "pod"), "{{pod}}"), (rate("readstates_flush_failures_total", "pod"), "{{pod}} failed")),
            graph(
                "Time of the database",
                "s",
                (quantile(0.99, "readstates_load_seconds", "namespace"), "p99 of a load"),
                (quantile(0.99, "readstates_flush_seconds", "namespace"), "p99 of a write"),
            ),
            graph(
                "Database answers",
                "none",
                (f"min by (pod) (readstates_store_healthy{{{OF}}})", "{{pod}}"),
                (f"max(readstates_store_parts_away{{{OF}}})", "parts away, of 64"),
            ),
            graph(
                "Loads, a second",
                "ops",
                (rate("readstates_loads_total", "namespace"), "loaded"),
                (rate("readstates_loads_coalesced_total", "namespace"), "joined a load under way"),
                (rate("readstates_load_refusals_total", "namespace"), "refused"),
            ),
            graph(
                "Threads busy",
                "percentunit",
                (
                    f"sum by (pod, runtime) (rate(readstates_runtime_busy_seconds_total{{{OF}}}[$__rate_interval]))"
                    f" / sum by (pod, runtime) (readstates_runtime_workers{{{OF}}})",
                    "{{pod}} {{runtime}}",
                ),
            ),
            graph(
                "Memory",
                "bytes",
                (f"process_resident_memory_bytes{{{OF}}} and on (namespace, pod) readstates_build_info", "{{pod}}"),
                (f"sum(readstates_cache_bytes{{{OF}}})", "caches, all"),
            ),
            graph("Free on the fullest database disk", "bytes", (f"readstates_cluster_database_free_bytes{{{OF_OPERATOR}}}", "{{name}}")),
        ],
    ),
    "ring": (
        "Readstates: ring and scaling",
        [
            number("Slots owned, of 1024", "none", (f"sum(readstates_slots_owned{{{OF}}})", "")),
            number("Number of the ring", "none", (f"max(readstates_ring_number{{{OF}}})", "")),
            number("Taken from the dead", "none", (f"sum(readstates_slots_taken_from_the_dead_total{{{OF}}})", ""), red_from=1),
            number("Shortest lease", "s", (f"min(readstates_lease_left_seconds{{{OF}}})", "")),
            graph("Slots, by member", "none", (f"sum by (pod) (readstates_slots_owned{{{OF}}})", "{{pod}}"), stacked=True),
            graph(
                "Slots on their way",
                "none",
                (f"sum(readstates_slots_sealed{{{OF}}})", "sealed"),
                (f"sum(readstates_slots_receiving{{{OF}}})", "being received"),
                (f"sum(readstates_slots_taking{{{OF}}})", "taken, not served yet"),
            ),
            graph("Handed on, bytes a second", "Bps", (rate("readstates_handoff_bytes_total", "pod"), "{{pod}}")),
            graph("Users handed on, a second", "ops", (rate("readstates_handoff_blocks_total", "pod"), "{{pod}}")),
            graph(
                "Time from seal to next owner",
                "s",
                (quantile(0.5, "readstates_handoff_sealed_seconds", "namespace"), "p50"),
                (quantile(0.99, "readstates_handoff_sealed_seconds", "namespace"), "p99"),
            ),
            graph(
                "Requests that wait for sealed slots",
                "none",
                (f"sum(readstates_slot_queue{{{OF}}})", "waiting"),
                (rate("readstates_slot_queue_timeouts_total", "namespace"), "gave up, a second"),
            ),
            graph(
                "Slots that changed their owner, a second",
                "ops",
                (rate("readstates_slots_handed_total", "namespace"), "handed"),
                (rate("readstates_slots_taken_total", "namespace"), "taken"),
                (rate("readstates_slots_retaken_total", "namespace"), "taken again"),
                (rate("readstates_slots_taken_from_the_dead_total", "namespace"), "from the dead"),
            ),
            graph(
                "Slots without a backup",
                "none",
                (f"sum by (pod) (readstates_slots_unprotected{{{OF}}})", "{{pod}}"),
                note="Where members are to replicate; 0 otherwise.",
            ),
            graph(
                "Backups: what is not written and held for others",
                "bytes",
                (f"sum by (pod) (readstates_backup_held_bytes{{{OF}}})", "{{pod}} holds"),
                (f"sum by (pod) (readstates_backup_pending_bytes{{{OF}}})", "{{pod}} sends"),
            ),
            graph(
                "Backups: changes, a second",
                "ops",
                (rate("readstates_backups_named_total", "namespace"), "slots that got one"),
                (rate("readstates_backups_dropped_total", "namespace"), "slots that lost theirs"),
                (rate("readstates_slots_promoted_total", "namespace"), "slots promoted"),
            ),
            graph("Time of a frame to a backup, p99", "s", (quantile(0.99, "readstates_backup_frame_seconds", "pod"), "{{pod}}")),
            graph("Number of the ring, by member", "none", (f"readstates_ring_number{{{OF}}}", "{{pod}}")),
            graph("Lease left", "s", (f"readstates_lease_left_seconds{{{OF}}}", "{{pod}}")),
            graph(
                "Leases",
                "none",
                (f"sum by (pod) (increase(readstates_lease_lapses_total{{{OF}}}[$__rate_interval]))", "{{pod}} lapsed"),
                (f"sum by (pod) (increase(readstates_lease_renewal_failures_total{{{OF}}}[$__rate_interval]))", "{{pod}} renewal failed"),
            ),
            graph("Time of the ring store, p99", "s", (quantile(0.99, "readstates_ring_store_seconds", "call"), "{{call}}")),
            graph("Ring store fails, a second", "ops", (rate("readstates_ring_store_failures_total", "call"), "{{call}}")),
            graph(
                "Requests passed on, of all",
                "percentunit",
                (
                    f"sum(rate(readstates_forwards_total{{{OF}}}[$__rate_interval])) / sum(rate(readstates_requests_total{{{OF},{USERS}}}[$__rate_interval]))",
                    "passed on",
                ),
                note="Clients that follow the ring need none of them; a plain client has all but one in the number of members.",
            ),
            graph("Passing on fails, a second", "ops", (rate("readstates_forward_failures_total", "pod"), "{{pod}}")),
            graph("Clock ahead of the others", "s", (f"abs(readstates_clock_ahead_seconds{{{OF}}})", "{{pod}}")),
            graph(
                "Operator",
                "ops",
                ("sum by (outcome) (rate(readstates_operator_reconciles_total[$__rate_interval]))", "{{outcome}}"),
                ("sum by (action) (rate(readstates_operator_member_actions_total[$__rate_interval])) > 0", "asked: {{action}}"),
            ),
        ],
    ),
    "super-disks": (
        "Readstates: super-disks",
        [
            number("Super-disks that last", "none", (f"sum(superdisk_ready{{{OF}}})", "")),
            number("Fast legs in sync", "none", (f'sum(superdisk_leg_in_sync{{{OF},leg="fast"}})', "")),
            number("Refused", "none", (f"sum(superdisk_refused{{{OF}}})", ""), red_from=1),
            number("Sectors that differ", "none", (f"sum(superdisk_mismatch_sectors{{{OF}}})", ""), red_from=1),
            states(
                "State",
                {"0": ("", "transparent"), "1": ("is", "#f2a900")},
                (f"superdisk_state{{{OF}}} == 1", "{{pod}} {{state}}"),
            ),
            states("Repair waits for", {"1": ("waits", "#f2a900")}, (f"superdisk_waiting_on{{{OF}}} == 1", "{{pod}} {{on}}")),
            graph("Filled", "percentunit", (f"superdisk_recovery_ratio{{{OF}}}", "{{pod}}")),
            graph("Filled, a second", "Bps", (f"superdisk_recovery_bytes_per_second{{{OF}}}", "{{pod}}")),
            graph("Reads, a second", "iops", (rate("superdisk_leg_reads_total", "pod, leg"), "{{pod}} {{leg}}"), note="The durable leg is read while the fast one is filled, by patrols and comparisons; else about never."),
            graph("Writes, a second", "iops", (rate("superdisk_leg_writes_total", "pod, leg"), "{{pod}} {{leg}}")),
            graph("Time of a read", "s", (rate("superdisk_leg_read_seconds_total", "pod, leg") + " / (" + rate("superdisk_leg_reads_total", "pod, leg") + " > 0)", "{{pod}} {{leg}}")),
            graph("Time of a write", "s", (rate("superdisk_leg_write_seconds_total", "pod, leg") + " / (" + rate("superdisk_leg_writes_total", "pod, leg") + " > 0)", "{{pod}} {{leg}}")),
            graph(
                "Sectors that could not be read",
                "none",
                (f"sum by (pod, leg) (increase(superdisk_leg_read_errors_total{{{OF}}}[1h]))", "{{pod}} {{leg}} healed, an hour"),
                (f"sum by (pod, leg) (superdisk_leg_bad_blocks{{{OF}}})", "{{pod}} {{leg}} bad"),
                (f"sum by (pod, leg) (superdisk_header_slot_broken{{{OF}}})", "{{pod}} {{leg}} header"),
            ),
            graph("Unreadable on both legs", "bytes", (f"superdisk_patrol_unreadable_bytes{{{OF}}}", "{{pod}}")),
            graph(
                "Last looked at",
                "s",
                (f"time() - superdisk_last_patrol_timestamp_seconds{{{OF}}}", "{{pod}} patrol"),
                (f"time() - superdisk_last_check_timestamp_seconds{{{OF}}}", "{{pod}} comparison"),
            ),
            graph("Last heartbeat", "s", (f"time() - superdisk_last_beat_timestamp_seconds{{{OF}}}", "{{pod}}")),
            graph("Super-disks, by the operator", "none", (f"readstates_cluster_super_disks{{{OF_OPERATOR}}}", "{{state}}"), stacked=True),
            graph("Database nodes", "none", (f"readstates_cluster_database_nodes{{{OF_OPERATOR}}}", "{{state}}"), stacked=True),
            graph("Since the oldest repair", "s", (f"readstates_cluster_repair_age_seconds{{{OF_OPERATOR}}}", "{{name}}")),
            graph("Database nodes that others see down", "none", (f'readstates_database_nodes{{{OF},state="down"}}', "seen by {{pod}}")),
            graph("Tasks that wait in Cassandra", "none", (f'sum by (pool) (readstates_database_pool_tasks{{{OF},state="pending"}}) > 0', "{{pool}}")),
            graph("Messages that Cassandra drops, a second", "ops", (rate("readstates_database_dropped_messages_total", "kind") + " > 0", "{{kind}}")),
        ],
    ),
}


def variable(name, label, query):
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": {"query": query, "refId": name},
        "definition": query,
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def placed(panels):
    """Numbers in one row of four, everything else in two columns."""
    out, x, y = [], 0, 0
    for each, item in enumerate(panels):
        width, height = (6, 4) if item["type"] == "stat" else (12, 8)
        if x + width > 24:
            x, y = 0, y + out[-1]["gridPos"]["h"]
        out.append({**item, "id": each + 1, "gridPos": {"x": x, "y": y, "w": width, "h": height}})
        x += width
    return out


def dashboard(name):
    title, panels = DASHBOARDS[name]
    source = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    namespaces = "label_values(readstates_build_info, namespace)"
    clusters = 'label_values(readstates_build_info{namespace=~"$namespace"}, readstates_cluster)'
    return {
        "uid": f"readstates-{name}",
        "title": title,
        "tags": ["readstates"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [source, variable("namespace", "Namespace", namespaces), variable("cluster", "Cluster", clusters)]},
        "links": [{"title": "Readstates", "type": "dashboards", "tags": ["readstates"], "asDropdown": False, "includeVars": True, "keepTime": True}],
        "panels": placed(panels),
    }


if __name__ == "__main__":
    if sys.argv[1:] == ["--names"]:
        print(*DASHBOARDS)
    else:
        print(json.dumps(dashboard(sys.argv[1]), indent=1))
