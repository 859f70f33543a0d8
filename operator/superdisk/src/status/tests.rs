//! The drawing of every typical situation, as a whole, and what programs are told of it: the operator's tests read
//! the same files. They are in `tests/fixtures/status`; `UPDATE_GOLDEN=1 cargo test` writes them again.

use std::{fs, path::Path};

use super::*;
use crate::{
    heal::{
        DurableLoss, Limits, WaitingOn, decide,
        facts::{Leg, Sync, Traffic},
        tests::{LIMITS, NOW, healthy},
    },
    md::SyncAction,
};

const HOUR: Seconds = 3600;

fn context() -> Context {
    Context {
        volume: "0d1e8f3c-5b0a".to_owned(),
        target: "/var/lib/scylla".into(),
        patrol: patrol::Record {
            last_finished: Some(NOW - 3 * HOUR),
            ..patrol::Record::default()
        },
        refusal: None,
        last_error: None,
        generation: Some(7),
    }
}

fn busy() -> Facts {
    let mut facts = healthy();
    let mirror = facts.mirror.as_mut().unwrap();
    let traffic = |leg: &mut Option<Leg>, reads, writes| {
        leg.as_mut().unwrap().traffic = Traffic {
            reads,
            writes,
            ..Traffic::default()
        };
    };
    traffic(&mut mirror.durable, 12, 48_311);
    traffic(&mut mirror.fast, 1_204_883, 48_300);
    mirror.fast.as_mut().unwrap().healed_sectors = 24;
    facts
}

/// A report of a healthy super-disk.
pub(crate) fn sample(memory: &Memory) -> Report {
    let facts = busy();
    let decision = decide(&LIMITS, &facts, memory, NOW);
    report(context(), Some(facts), decision, memory, NOW)
}

/// A report of one whose durable leg failed.
pub(crate) fn lost() -> Report {
    let mut facts = busy();
    facts
        .mirror
        .as_mut()
        .unwrap()
        .durable
        .as_mut()
        .unwrap()
        .flags
        .faulty = true;
    let memory = memory();
    let decision = decide(&LIMITS, &facts, &memory, NOW);
    report(context(), Some(facts), decision, &memory, NOW)
}

fn memory() -> Memory {
    let mut memory = Memory::default();
    memory.check.last_finished = Some(NOW - 12 * 24 * HOUR);
    memory
}

fn reported(context: Context, facts: Facts, memory: &Memory) -> Report {
    let limits: &Limits = &LIMITS;
    let decision = decide(limits, &facts, memory, NOW);
    report(context, Some(facts), decision, memory, NOW)
}

fn same_as_golden(name: &str, drawing: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/status/{name}"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, drawing).unwrap();
    }
    let golden = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(drawing, golden, "{}", path.display());
}

fn draws(name: &str, change: impl FnOnce(&mut Facts, &mut Context, &mut Memory)) {
    let (mut facts, mut context, mut memory) = (busy(), context(), memory());
    change(&mut facts, &mut context, &mut memory);
    let report = reported(context, facts, &memory);
    same_as_golden(&format!("{name}.txt"), &draw(&report, Paint::Plain));
    let told = serde_json::to_string_pretty(&report).unwrap() + "\n";
    same_as_golden(&format!("{name}.json"), &told);
}

#[test]
fn healthy_is_drawn() {
    draws("healthy", |_, _, _| {});
}

#[test]
fn a_rebuild_that_the_network_disk_stops_is_drawn() {
    draws("durable-unreadable", |facts, _, memory| {
        let mirror = facts.mirror.as_mut().unwrap();
        let fast = mirror.fast.as_mut().unwrap();
        fast.flags.in_sync = false;
        fast.filled_sectors = Some(1_204_224);
        memory.stalled_since = Some(NOW - HOUR);
    });
}

#[test]
fn a_rebuild_is_drawn_with_its_rate_and_the_time_left() {
    draws("rebuilding", |facts, context, _| {
        let mirror = facts.mirror.as_mut().unwrap();
        mirror.fast.as_mut().unwrap().flags.in_sync = false;
        mirror.sync = Sync {
            action: SyncAction::Recover,
            progress: Some((3_145_728, 8_388_608)),
            kib_per_second: 1024,
        };
        context.patrol = patrol::Record::default();
    });
}

#[test]
fn missing_disks_are_drawn() {
    draws("fast-lost", |facts, _, _| {
        facts.mirror.as_mut().unwrap().fast = None;
        facts.stripe = None;
        facts.local_found = 1;
    });
}

#[test]
fn a_disk_that_left_is_drawn() {
    draws("member-gone", |facts, _, _| {
        facts.stripe.as_mut().unwrap().members[1].present = false;
    });
}

#[test]
fn a_leg_that_was_given_up_is_drawn() {
    draws("given-up", |facts, context, memory| {
        facts.mirror.as_mut().unwrap().fast = None;
        for hours in [5, 4, 3] {
            let step = crate::heal::Step::RebuildFastLeg;
            memory.before(&step, NOW - hours * HOUR);
            memory.before(&crate::heal::Step::ReAddFastLeg, NOW - hours);
        }
        context.last_error = Some(
            "failed to add the fast leg back, copying what changed: mdadm ended with exit status: 1"
                .to_owned(),
        );
    });
}

#[test]
fn the_red_line_is_drawn() {
    draws("durable-lost", |facts, _, memory| {
        facts
            .mirror
            .as_mut()
            .unwrap()
            .durable
            .as_mut()
            .unwrap()
            .flags
            .faulty = true;
        memory.frozen = true;
    });
}

#[test]
fn a_network_disk_that_was_given_back_by_hand_is_drawn() {
    draws("durable-returned", |_, _, memory| memory.frozen = true);
}

#[test]
fn a_check_and_a_patrol_under_way_are_drawn() {
    draws("check", |facts, context, memory| {
        let mirror = facts.mirror.as_mut().unwrap();
        mirror.sync = Sync {
            action: SyncAction::Check,
            progress: Some((8_388_608, 12_582_912)),
            kib_per_second: 30_000,
        };
        context.patrol.position = 1 << 30;
        context.patrol.last_unreadable = 2;
        memory.check.last_mismatch = 256;
        mirror.fast.as_mut().unwrap().bad_sectors = 8;
    });
}

#[test]
fn a_broken_slot_of_the_header_is_drawn() {
    draws("broken-slot", |_, _, memory| {
        let broken = BrokenSlots {
            durable: true,
            fast: false,
        };
        memory.beat(NOW - 4, broken);
    });
}

#[test]
fn a_refusal_is_drawn() {
    draws("refused", |facts, context, _| {
        (facts.mirror, facts.stripe, facts.mount) = (None, None, None);
        context.refusal = Some(RefusalReport {
            code: "E_SSD_MISSING".to_owned(),
            text: "1 of 2 local devices are there for /dev/nvme*. Use a node pool with that many."
                .to_owned(),
        });
    });
}

#[test]
fn colours_are_only_added() {
    let report = reported(context(), busy(), &memory());
    let plain = draw(&report, Paint::Plain);
    let coloured = draw(&report, Paint::Colour);
    assert!(coloured.contains("\x1b[32mHEALTHY\x1b[0m"), "{coloured}");
    let mut stripped = coloured;
    for code in ["\x1b[32m", "\x1b[33m", "\x1b[1;31m", "\x1b[2m", "\x1b[0m"] {
        stripped = stripped.replace(code, "");
    }
    assert_eq!(stripped, plain);
}

#[test]
fn readiness_means_mounted_and_lasting() {
    let ready = |facts: Option<Facts>, memory: &Memory| {
        let decision = match &facts {
            Some(facts) => decide(&LIMITS, facts, memory, NOW),
            None => Decision {
                condition: Condition::NotAssembled,
                notices: vec![],
                steps: vec![],
            },
        };
        let report = report(context(), facts, decision, memory, NOW);
        (report.mounted, report.ready)
    };
    let with = |change: fn(&mut Facts)| {
        let mut facts = healthy();
        change(&mut facts);
        Some(facts)
    };
    let fresh = Memory::default();
    let frozen = Memory {
        frozen: true,
        ..Memory::default()
    };
    assert_eq!(ready(Some(healthy()), &fresh), (true, true));
    assert_eq!(ready(Some(healthy()), &frozen), (true, false));
    assert_eq!(ready(None, &fresh), (false, false));
    let no_fast = with(|facts| facts.mirror.as_mut().unwrap().fast = None);
    assert_eq!(ready(no_fast, &fresh), (true, true));
    let no_durable = with(|facts| facts.mirror.as_mut().unwrap().durable = None);
    assert_eq!(ready(no_durable, &fresh), (true, false));
    let other_mount = with(|facts| facts.mount.as_mut().unwrap().device = "sda1".to_owned());
    assert_eq!(ready(other_mount, &fresh), (false, false));
    let read_only = with(|facts| facts.mount.as_mut().unwrap().read_only = true);
    assert_eq!(ready(read_only, &fresh), (true, false));
}

#[test]
fn a_report_is_stable_json() {
    let decision = Decision {
        condition: Condition::DurableLost {
            why: DurableLoss::BadSectors(8),
            frozen: true,
        },
        notices: vec![Notice::FastBadSectors(16)],
        steps: vec![],
    };
    let report = report(context(), Some(healthy()), decision, &memory(), NOW);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(
        json["condition"],
        serde_json::json!({"is": "durable-lost", "why": {"bad-sectors": 8}, "frozen": true})
    );
    assert_eq!(json["facts"]["mirror"]["durable"]["device"], "sdb");
    assert_eq!(
        json["notices"],
        serde_json::json!([{"fast-bad-sectors": 16}])
    );
    let waiting = Condition::FastLost {
        waiting_on: WaitingOn::LocalDevices {
            found: 1,
            wanted: 2,
        },
    };
    assert_eq!(
        serde_json::to_value(waiting).unwrap(),
        serde_json::json!({"is": "fast-lost", "waiting_on": {"local-devices": {"found": 1, "wanted": 2}}})
    );
}
