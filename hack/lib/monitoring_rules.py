"""Unit tests of the alerts: each fires when it should, with no other beside it, and none in ordinary life.

Writes them for `promtool test rules`. In: the ordinary world (every series that an alert looks at, as it is while all is
well) and, for each alert, what is different when it has to fire. Out: a file for each, in the folder that is given.
"""

import json
import pathlib
import re
import sys

RULES = pathlib.Path(__file__).parents[2] / "charts/readstates-operator/files/monitoring/rules.yaml"
MINUTES = 420
HOUR = 60
DAY = 86400

CLUSTER = 'namespace="talk",readstates_cluster="chat"'
A = f'{CLUSTER},pod="chat-0"'
B = f'{CLUSTER},pod="chat-1"'
DISK = f'{CLUSTER},pod="chat-db-a-0"'
OF_OPERATOR = 'namespace="talk",name="chat"'
ACK = 'route="/v1/users/{user}/read-states/{channel}/ack",method="POST"'


def steady(value, minutes=MINUTES):
    return f"{value}x{minutes}"


def growing(by, minutes=MINUTES):
    return f"0+{by}x{minutes}"


def now(offset):
    """A time so many seconds from the world's present, which begins at 0."""
    return steady(offset)


def member(labels):
    return {
        f"up{{{labels}}}": steady(1),
        f"readstates_build_info{{{labels},version=\"1\"}}": steady(1),
        f"process_open_fds{{{labels}}}": steady(80),
        f"process_max_fds{{{labels}}}": steady(1024),
        f"readstates_requests_total{{{labels},{ACK},status=\"200\"}}": growing(60_000),
        f"readstates_requests_total{{{labels},{ACK},status=\"503\"}}": growing(0),
        f"readstates_requests_total{{{labels},{ACK},status=\"429\"}}": growing(0),
        f"readstates_request_seconds_bucket{{{labels},{ACK},le=\"0.01\"}}": growing(59_900),
        f"readstates_request_seconds_count{{{labels},{ACK}}}": growing(60_000),
        f"readstates_limit_in_use{{{labels},limit=\"changes\"}}": steady(12),
        f"readstates_limit_in_use{{{labels},limit=\"ring-waiters\"}}": steady(99),
        f"readstates_limit{{{labels},limit=\"changes\"}}": steady(100),
        f"readstates_limit{{{labels},limit=\"ring-waiters\"}}": steady(100),
        f"readstates_limit_refusals_total{{{labels},limit=\"changes\"}}": growing(0),
        f"readstates_slots_taken_from_the_dead_total{{{labels}}}": growing(0),
        f"readstates_unprotected_seconds{{{labels}}}": steady(0),
        f"readstates_backup_lost_users_total{{{labels}}}": growing(0),
        f"readstates_oldest_dirty_seconds{{{labels}}}": steady(28),
        f"readstates_flush_interval_seconds{{{labels}}}": steady(30),
        f"readstates_store_healthy{{{labels}}}": steady(1),
        f"readstates_flushes_away{{{labels}}}": steady(0),
        f"readstates_loads_away{{{labels}}}": steady(0),
        f"readstates_store_parts_away{{{labels}}}": steady(0),
        f"readstates_flushes_total{{{labels}}}": growing(1200),
        f"readstates_flush_failures_total{{{labels}}}": growing(1),
        f"readstates_refusals_total{{{labels},type=\"too-many-unwritten\"}}": growing(0),
        f"readstates_unreadable_blocks_total{{{labels}}}": growing(0),
        f"readstates_slots_regressed{{{labels}}}": steady(0),
        f"readstates_slots_owned{{{labels}}}": steady(512),
        f"readstates_slots_sealed{{{labels}}}": steady(0),
        f"readstates_slots_handed_total{{{labels}}}": growing(0),
        f"readstates_lease_lapses_total{{{labels}}}": growing(0),
        f"readstates_ring_store_failures_total{{{labels},call=\"renew\"}}": growing(0),
        f"readstates_ring_number{{{labels}}}": steady(7),
        f"readstates_ring_behind{{{labels}}}": steady(0),
        f"readstates_clock_wrong{{{labels}}}": steady(0),
        f"readstates_cache_hits_total{{{labels}}}": growing(59_000),
        f"readstates_cache_misses_total{{{labels}}}": growing(1_000),
        f"readstates_evictions_total{{{labels}}}": growing(600),
        f"readstates_certificate_expires_timestamp_seconds{{{labels}}}": now(40 * DAY),
        f"readstates_access_reload_failures_total{{{labels}}}": growing(0),
        f"readstates_tls_reload_failures_total{{{labels}}}": growing(0),
    }


def database():
    return {
        f'readstates_database_nodes{{{DISK},state="up"}}': steady(3),
        f'readstates_database_nodes{{{DISK},state="down"}}': steady(0),
        f'readstates_database_dropped_messages_total{{{DISK},kind="READ_REQ"}}': growing(0),
    }


def disk():
    refused = f'superdisk_refused{{{DISK},code="E_PD_LOST"}}'
    return {
        f'superdisk_state{{{DISK},state="healthy"}}': steady(1),
        f'superdisk_state{{{DISK},state="durable-lost"}}': steady(0),
        f'superdisk_state{{{DISK},state="fast-lost"}}': steady(0),
        refused: steady(0),
        f"superdisk_durable_reads_total{{{DISK}}}": growing(3),
        f'superdisk_leg_in_sync{{{DISK},leg="fast"}}': steady(1),
        f'superdisk_leg_bad_blocks{{{DISK},leg="fast"}}': steady(0),
        f'superdisk_leg_read_errors_total{{{DISK},leg="fast"}}': growing(0),
        f"superdisk_patrol_unreadable_bytes{{{DISK}}}": steady(0),
        f"superdisk_mismatch_sectors{{{DISK}}}": steady(0),
        f"superdisk_last_patrol_timestamp_seconds{{{DISK}}}": now(-5 * DAY),
        f"superdisk_last_check_timestamp_seconds{{{DISK}}}": now(-20 * DAY),
        f"superdisk_last_beat_timestamp_seconds{{{DISK}}}": growing(60),
        f'superdisk_header_slot_broken{{{DISK},leg="durable"}}': steady(0),
    }


def operator():
    return {
        'readstates_operator_leader{pod="operator-0"}': steady(1),
        f'readstates_cluster_condition{{{OF_OPERATOR},condition="Available"}}': steady(1),
        f'readstates_cluster_condition{{{OF_OPERATOR},condition="Degraded"}}': steady(0),
        f'readstates_cluster_condition{{{OF_OPERATOR},condition="TakenOver"}}': steady(0),
        f"readstates_cluster_database_free_bytes{{{OF_OPERATOR}}}": f"{500 << 30}-{1 << 20}x{MINUTES}",
        f"readstates_cluster_database_size_bytes{{{OF_OPERATOR}}}": steady(1000 << 30),
        f"readstates_cluster_ring_number{{{OF_OPERATOR}}}": steady(7),
        f"readstates_cluster_repair_age_seconds{{{OF_OPERATOR}}}": growing(60),
        f"readstates_cluster_repair_failures{{{OF_OPERATOR}}}": steady(0),
        'readstates_backup_degraded{namespace="talk",name="nightly",cluster="chat"}': steady(0),
        'readstates_migration_degraded{namespace="talk",name="away",cluster="chat"}': steady(0),
        'readstates_migration_progress_age_seconds{namespace="talk",name="away",cluster="chat"}': steady(20),
        'readstates_operator_certificate_expiry_timestamp_seconds{cluster="chat.talk",role="member"}': now(40 * DAY),
        'readstates_operator_reconcile_errors_total{error="read"}': growing(0),
        "readstates_operator_unreadable_clusters_total": growing(0),
        'readstates_operator_writes_total{kind="StatefulSet"}': growing(0),
    }


def world():
    return member(A) | member(B) | database() | disk() | operator()


def gone():
    """Nothing of it is scraped any more."""
    return "_x420"


def not_scraped(labels):
    """From minute 6 on: what it told until then ends, though it serves on."""
    changes = {}
    for series, value in member(labels).items():
        start = value.rsplit("x", 1)[0]
        changes[series] = f"{start}x5 _x{MINUTES}"
    return changes | {f"up{{{labels}}}": f"1x5 0x{MINUTES}"}


# By alert: minutes until it must fire, what is different, and what fires beside it because it follows from the same.
CASES = {
    "ReadstatesUnavailable": (5, {f'readstates_cluster_condition{{{OF_OPERATOR},condition="Available"}}': steady(0)}, []),
    "ReadstatesErrorBudgetBurnsFast": (
        10,
        {f'readstates_requests_total{{{A},{ACK},status="503"}}': growing(3_000)},
        [],
    ),
    "ReadstatesErrorBudgetBurnsSlowly": (
        80,
        {f'readstates_requests_total{{{A},{ACK},status="500"}}': growing(900)},
        [],
    ),
    "ReadstatesChangesSlow": (
        20,
        {f'readstates_request_seconds_bucket{{{A},{ACK},le="0.01"}}': growing(20_000)},
        [],
    ),
    "ReadstatesOverloaded": (10, {f'readstates_limit_refusals_total{{{B},limit="changes"}}': growing(120)}, []),
    "ReadstatesLimitNearlyUsed": (15, {f'readstates_limit_in_use{{{B},limit="changes"}}': steady(90)}, []),
    # Whose slots are not seen either: that they have no owner does not follow.
    "ReadstatesMemberNotScraped": (20, not_scraped(A), []),
    "ReadstatesUpdatesMayBeLost": (
        12,
        {f"readstates_slots_taken_from_the_dead_total{{{B}}}": "0x9 512x400"},
        [],
    ),
    "ReadstatesUpdatesMayBeLost/by the operator's word": (
        2,
        {f'readstates_cluster_condition{{{OF_OPERATOR},condition="TakenOver"}}': steady(1)},
        [],
    ),
    "ReadstatesSlotsUnprotected": (5, {f"readstates_unprotected_seconds{{{B}}}": growing(60)}, []),
    "ReadstatesBackupsIncomplete": (6, {f"readstates_backup_lost_users_total{{{B}}}": "0x4 1x400"}, []),
    "ReadstatesWritesLate": (5, {f"readstates_oldest_dirty_seconds{{{A}}}": growing(60)}, []),
    "ReadstatesStoreAway": (3, {f"readstates_store_healthy{{{A}}}": steady(0)}, []),
    "ReadstatesStoreAway/for flushes": (3, {f"readstates_flushes_away{{{A}}}": steady(1)}, []),
    "ReadstatesStoreAway/for loads": (3, {f"readstates_loads_away{{{A}}}": steady(1)}, []),
    "ReadstatesStorePartsAway": (8, {f"readstates_store_parts_away{{{A}}}": steady(3)}, []),
    "ReadstatesFlushesFail": (10, {f"readstates_flush_failures_total{{{A}}}": growing(400)}, []),
    "ReadstatesChangesRefusedUnwritten": (
        5,
        {f'readstates_refusals_total{{{A},type="too-many-unwritten"}}': growing(3)},
        [],
    ),
    "ReadstatesBlocksUnreadable": (6, {f"readstates_unreadable_blocks_total{{{A}}}": "0x4 1x400"}, []),
    "ReadstatesSlotsRegressed": (2, {f"readstates_slots_regressed{{{A}}}": steady(1)}, []),
    "ReadstatesDatabaseNodeDown": (15, {f'readstates_database_nodes{{{DISK},state="down"}}': steady(1)}, []),
    "ReadstatesDatabaseDrops": (
        25,
        {f'readstates_database_dropped_messages_total{{{DISK},kind="READ_REQ"}}': growing(30)},
        [],
    ),
    "ReadstatesRepairOverdue": (
        70,
        {f"readstates_cluster_repair_age_seconds{{{OF_OPERATOR}}}": f"{9 * DAY + 60}+60x{MINUTES}"},
        [],
    ),
    "ReadstatesRepairFails": (2, {f"readstates_cluster_repair_failures{{{OF_OPERATOR}}}": steady(3)}, []),
    "ReadstatesBackupFails": (
        16,
        {'readstates_backup_degraded{namespace="talk",name="nightly",cluster="chat"}': steady(1)},
        [],
    ),
    "ReadstatesMigrationFails": (
        3,
        {'readstates_migration_degraded{namespace="talk",name="away",cluster="chat"}': steady(1)},
        [],
    ),
    "ReadstatesMigrationStalls": (
        17,
        {'readstates_migration_progress_age_seconds{namespace="talk",name="away",cluster="chat"}': growing(60)},
        [],
    ),
    "ReadstatesSlotsWithoutOwner": (5, {f"readstates_slots_owned{{{B}}}": steady(500)}, []),
    "ReadstatesLeaseLapsed": (6, {f"readstates_lease_lapses_total{{{B}}}": "0x4 1x400"}, []),
    "ReadstatesRingStoreFails": (
        8,
        {f'readstates_ring_store_failures_total{{{B},call="renew"}}': growing(20)},
        [],
    ),
    "ReadstatesRingDisagreement": (10, {f"readstates_ring_number{{{B}}}": steady(6)}, []),
    "ReadstatesHandoffStuck": (6, {f"readstates_slots_sealed{{{A}}}": steady(64)}, []),
    "ReadstatesRingBehind": (3, {f"readstates_ring_behind{{{A}}}": steady(1)}, []),
    "ReadstatesClockWrong": (3, {f"readstates_clock_wrong{{{A}}}": steady(1)}, []),
    "ReadstatesCacheTooSmall": (
        50,
        {f"readstates_cache_hits_total{{{labels}}}": growing(2_000) for labels in (A, B)},
        [],
    ),
    "ReadstatesDatabaseDiskFills": (
        40,
        {f"readstates_cluster_database_free_bytes{{{OF_OPERATOR}}}": steady(90 << 30)},
        [],
    ),
    "ReadstatesDatabaseDiskFills/in three days": (
        400,
        {f"readstates_cluster_database_free_bytes{{{OF_OPERATOR}}}": f"{500 << 30}-{1 << 28}x{MINUTES}"},
        [],
    ),
    "ReadstatesFilesNearlyUsed": (15, {f"process_open_fds{{{A}}}": steady(1000)}, []),
    "ReadstatesCertificateExpires": (
        80,
        {'readstates_operator_certificate_expiry_timestamp_seconds{cluster="chat.talk",role="member"}': now(5 * DAY)},
        [],
    ),
    "ReadstatesCertificateExpires/of a member": (
        80,
        {f"readstates_certificate_expires_timestamp_seconds{{{A}}}": now(DAY)},
        [],
    ),
    "ReadstatesFilesRefused": (6, {f"readstates_tls_reload_failures_total{{{A}}}": "0x4 1x400"}, []),
    "ReadstatesOperatorAbsent": (10, {'readstates_operator_leader{pod="operator-0"}': steady(0)}, []),
    "ReadstatesDegraded": (10, {f'readstates_cluster_condition{{{OF_OPERATOR},condition="Degraded"}}': steady(1)}, []),
    "ReadstatesWaitsLong": (
        35,
        {f'readstates_cluster_waiting_seconds{{{OF_OPERATOR},reason="CacheNotReady"}}': growing(60)},
        [],
    ),
    "ReadstatesNeedsAPerson": (
        5,
        {f'readstates_cluster_waiting_seconds{{{OF_OPERATOR},reason="DiskLost"}}': growing(60)},
        [],
    ),
    "ReadstatesReconcilesFail": (40, {'readstates_operator_reconcile_errors_total{error="read"}': growing(6)}, []),
    "ReadstatesSpecUnreadable": (6, {"readstates_operator_unreadable_clusters_total": "0x4 1x400"}, []),
    "ReadstatesOperatorWritesAtRest": (
        130,
        {'readstates_operator_writes_total{kind="StatefulSet"}': growing(6)},
        [],
    ),
    "SuperDiskDurableLegLost": (2, {f'superdisk_state{{{DISK},state="durable-lost"}}': steady(1)}, []),
    "SuperDiskRefused": (3, {f'superdisk_refused{{{DISK},code="E_PD_LOST"}}': steady(1)}, []),
    "SuperDiskFastLegLost": (
        40,
        {f'superdisk_state{{{DISK},state="fast-lost"}}': steady(1), f'superdisk_leg_in_sync{{{DISK},leg="fast"}}': steady(0)},
        [],
    ),
    "SuperDiskReadsDurableLeg": (25, {f"superdisk_durable_reads_total{{{DISK}}}": growing(600)}, []),
    "SuperDiskSectorsBad": (2, {f'superdisk_leg_bad_blocks{{{DISK},leg="fast"}}': steady(8)}, []),
    "SuperDiskSectorsBad/read errors": (
        60,
        {f'superdisk_leg_read_errors_total{{{DISK},leg="fast"}}': growing(8)},
        [],
    ),
    "SuperDiskDataUnreadable": (2, {f"superdisk_patrol_unreadable_bytes{{{DISK}}}": steady(4096)}, []),
    "SuperDiskLegsDiffer": (2, {f"superdisk_mismatch_sectors{{{DISK}}}": steady(128)}, []),
    "SuperDiskLookedAtTooSeldom": (80, {f"superdisk_last_patrol_timestamp_seconds{{{DISK}}}": now(-11 * DAY)}, []),
    "SuperDiskNotTended": (8, {f"superdisk_last_beat_timestamp_seconds{{{DISK}}}": steady(60)}, []),
    "SuperDiskHeaderSlotBroken": (15, {f'superdisk_header_slot_broken{{{DISK},leg="durable"}}': steady(1)}, []),
}


def rolling_restart():
    """Both members are restarted one after another, from minute 60 and 75 on, and a database that blinks at 100."""
    changes = {}
    for labels, at in ((A, 60), (B, 75)):
        other = B if labels == A else A
        after = MINUTES - at - 8
        # Four minutes of handing on, two of absence, two until the slots are back.
        for series, value in member(labels).items():
            if "total" in series or "_bucket" in series or "_count" in series:
                by = int(re.search(r"\+(\d+)", value)[1])
                changes[series] = f"0+{by}x{at + 3} _x2 0+{by}x{after}"
            else:
                constant = value.split("x")[0]
                changes[series] = f"{constant}x{at + 3} _x2 {constant}x{after}"
        changes[f"up{{{labels}}}"] = f"1x{at + 3} 0x1 1x{after}"
        changes[f"readstates_slots_sealed{{{labels}}}"] = f"0x{at} 64 64 32 _x2 0x{after}"
        changes[f"readstates_slots_handed_total{{{labels}}}"] = f"0x{at} 128 256 512 _x2 0x{after}"
    changes[f"readstates_slots_owned{{{A}}}"] = "512x60 384 256 0 _x2 0 512x8 512 640 768 1024 1024 1024 1024 512x300"
    changes[f"readstates_slots_owned{{{B}}}"] = "512x60 640 768 1024 1024 1024 1024 512x8 512 384 256 0 _x2 0 512x300"
    ring = "7x60 8 9 10 11 12 13 13x8 14 15 16 17 18 19 19 20x300"
    changes[f"readstates_ring_number{{{A}}}"] = ring
    changes[f"readstates_ring_number{{{B}}}"] = ring.replace("8 9 10", "7 9 10")
    changes[f'readstates_cluster_waiting_seconds{{{OF_OPERATOR},reason="CacheDraining"}}'] = "_x60 0+60x6 _x9 0+60x6 _x300"
    changes[f"readstates_cluster_ring_number{{{OF_OPERATOR}}}"] = ring
    changes['readstates_operator_writes_total{kind="StatefulSet"}'] = "0x60 1 2 3x300"
    changes['readstates_operator_leader{pod="operator-0"}'] = "1x120 _x2 1x200"
    # A database pod is restarted, too.
    changes[f'readstates_database_nodes{{{DISK},state="down"}}'] = "0x150 1x4 0x300"
    # The database does not answer one look, and a few requests fail with it.
    changes[f"readstates_store_healthy{{{A}}}"] = "1x63 _x2 1x35 0 1x250"
    changes[f'readstates_requests_total{{{B},{ACK},status="503"}}'] = "0x78 _x2 0x20 40x250"
    changes[f"superdisk_durable_reads_total{{{DISK}}}"] = "0x30 9000x300"
    return changes


def stopped():
    """Nobody serves, as the spec says: one member after the other writes what it holds and goes."""
    changes = {series: value.split("x")[0] + "x20 _x400" for series, value in (member(A) | member(B)).items() if "total" not in series}
    changes[f"readstates_slots_owned{{{A}}}"] = "512x10 256x10 _x400"
    changes[f'readstates_cluster_condition{{{OF_OPERATOR},condition="Stopped"}}'] = "_x9 0x12 1x400"
    changes[f'readstates_cluster_condition{{{OF_OPERATOR},condition="Available"}}'] = "1x9 0x400"
    return changes


def new():
    """A cluster that waits for its database to start, and has never served."""
    changes = {series: gone() for series in member(A) | member(B)}
    changes[f'readstates_cluster_condition{{{OF_OPERATOR},condition="Available"}}'] = steady(0)
    changes[f"readstates_cluster_ring_number{{{OF_OPERATOR}}}"] = steady(1)
    changes[f'readstates_cluster_waiting_seconds{{{OF_OPERATOR},reason="DatabaseNotReady"}}'] = growing(60)
    return changes


def restoring():
    """A new cluster whose backup is being restored for hours: it has no ring yet."""
    changes = {series: gone() for series in member(A) | member(B)}
    changes[f'readstates_cluster_condition{{{OF_OPERATOR},condition="Available"}}'] = steady(0)
    changes[f'readstates_cluster_condition{{{OF_OPERATOR},condition="Restored"}}'] = steady(0)
    changes[f"readstates_cluster_ring_number{{{OF_OPERATOR}}}"] = gone()
    changes[f'readstates_cluster_waiting_seconds{{{OF_OPERATOR},reason="RestoreRunning"}}'] = growing(60)
    return changes


def filled():
    """A new database gets its commit log and first files: of 100 GiB a few are gone within an hour, and no more after it."""
    free = f"_x9 {100 << 30}-{1 << 27}x40 {95 << 30}x{MINUTES - 50}"
    return {
        f"readstates_cluster_database_free_bytes{{{OF_OPERATOR}}}": free,
        f"readstates_cluster_database_size_bytes{{{OF_OPERATOR}}}": steady(100 << 30),
    }


def test(name, minutes, changes, firing):
    series = world() | changes
    quiet = not firing
    moments = range(0, minutes + 1) if quiet else [minutes]
    expected = [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in firing]
    # Those of a cluster fire once, however many members they are about.
    asked = "count by (alertname) (count by (alertname, namespace) (ALERTS{alertstate=\"firing\"}))"
    return {
        "name": name,
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {"expr": asked, "eval_time": f"{minute}m", "exp_samples": expected} for minute in moments
        ],
    }


def main(folder):
    alerts = re.findall(r"- alert: (\w+)", RULES.read_text())
    tested = {case.split("/")[0] for case in CASES}
    untested, unknown = set(alerts) - tested, tested - set(alerts)
    if untested or unknown:
        sys.exit(f"alerts without a test: {sorted(untested)}; tests without an alert: {sorted(unknown)}")
    tests = [
        test(f"{case} fires, and no other", minutes, changes, [case.split("/")[0], *beside])
        for case, (minutes, changes, beside) in CASES.items()
    ]
    tests.append(test("nothing fires in ordinary life, two restarts included", 200, rolling_restart(), []))
    tests.append(test("nothing fires because a cluster is stopped", 60, stopped(), []))
    tests.append(test("nothing fires because a cluster is new", 29, new(), []))
    tests.append(test("nothing fires because a backup is being restored", 120, restoring(), []))
    tests.append(test("nothing fires because a new database fills its first files", 120, filled(), []))
    # JSON is YAML.
    document = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}
    (pathlib.Path(folder) / "rules-test.yaml").write_text(json.dumps(document, indent=1))
    print(f"{len(alerts)} alerts, {len(tests)} tests")


if __name__ == "__main__":
    main(sys.argv[1])
