//! Every situation of the running side, what is decided about it, and that trying has a bound.

mod comparisons;

use super::{
    facts::{Knobs, Member, Mount, Sync, Traffic},
    *,
};
use crate::{lineage::BrokenSlots, md::Flags};

/// 2026-07-14, some time.
pub(crate) const NOW: Seconds = 1_784_000_000;

pub(crate) const LIMITS: Limits = Limits {
    local_count: 2,
    rebuild_min_kib: 50_000,
    rebuild_max_kib: 400_000,
    check_max_kib: 30_000,
    check_every: 30 * DAY,
    grow: true,
};

fn leg(device: &str, slot: u16, write_mostly: bool) -> Leg {
    Leg {
        device: device.to_owned(),
        flags: Flags {
            in_sync: true,
            write_mostly,
            ..Flags::default()
        },
        present: true,
        bytes: 6 << 30,
        slot: Some(slot),
        filled_sectors: None,
        healed_sectors: 0,
        bad_sectors: 0,
        traffic: Traffic::default(),
    }
}

fn member(device: &str) -> Member {
    Member {
        device: device.to_owned(),
        bytes: 4 << 30,
        present: true,
    }
}

/// Both legs in sync, all settings as they shall be, mounted.
pub(crate) fn healthy() -> Facts {
    Facts {
        mirror: Some(Mirror {
            name: "md101".to_owned(),
            bytes: 6 << 30,
            sync: Sync {
                action: SyncAction::Idle,
                progress: None,
                kib_per_second: 0,
            },
            durable: Some(leg("sdb", 0, true)),
            fast: Some(leg("md100", 1, false)),
            mismatch_sectors: 0,
            knobs: Knobs {
                max_read_errors: MAX_READ_ERRORS,
                sync_speed_min: 50_000,
                sync_speed_max: 400_000,
                rotational: false,
                backlog: 0,
                sync_ends_early: false,
            },
        }),
        stripe: Some(Stripe {
            name: "md100".to_owned(),
            bytes: 8 << 30,
            broken: false,
            members: vec![member("nvme0n1"), member("nvme1n1")],
        }),
        local_found: 2,
        mount: Some(Mount {
            device: "md101".to_owned(),
            filesystem: "xfs".to_owned(),
            read_only: false,
        }),
    }
}

fn with(change: impl FnOnce(&mut Facts)) -> Facts {
    let mut facts = healthy();
    change(&mut facts);
    facts
}

fn mirror(facts: &mut Facts) -> &mut Mirror {
    facts.mirror.as_mut().unwrap()
}

fn durable(facts: &mut Facts) -> &mut Leg {
    mirror(facts).durable.as_mut().unwrap()
}

fn fast(facts: &mut Facts) -> &mut Leg {
    mirror(facts).fast.as_mut().unwrap()
}

fn stripe(facts: &mut Facts) -> &mut Stripe {
    facts.stripe.as_mut().unwrap()
}

fn kicked() -> Facts {
    with(|facts| mirror(facts).fast = None)
}

fn blank_devices() -> Facts {
    with(|facts| {
        mirror(facts).fast = None;
        facts.stripe = None;
    })
}

fn decided(facts: &Facts) -> (Condition, Vec<Step>) {
    remembered(facts, &Memory::default())
}

fn remembered(facts: &Facts, memory: &Memory) -> (Condition, Vec<Step>) {
    let decision = decide(&LIMITS, facts, memory, NOW);
    (decision.condition, decision.steps)
}

fn lost(waiting_on: WaitingOn) -> Condition {
    Condition::FastLost { waiting_on }
}

#[test]
fn a_healthy_super_disk_is_left_alone() {
    assert_eq!(decided(&healthy()), (Condition::Healthy, vec![]));
    assert_eq!(
        decide(&LIMITS, &healthy(), &Memory::default(), NOW).notices,
        []
    );
}

/// The network disk has room for a mirror of almost 10 GiB, and the local disks for one of almost 8.
fn grown() -> Facts {
    with(|facts| durable(facts).bytes = 10 << 30)
}

#[test]
fn what_the_network_disk_has_grown_by_is_used_while_nothing_else_is_done() {
    assert_eq!(decided(&grown()), (Condition::Healthy, vec![Step::Grow]));
    let unasked = Limits {
        grow: false,
        ..LIMITS
    };
    let decision = decide(&unasked, &grown(), &Memory::default(), NOW);
    assert!(!decision.steps.contains(&Step::Grow));
    let small_locals = with(|facts| {
        durable(facts).bytes = 10 << 30;
        stripe(facts).bytes = 6 << 30;
    });
    let busy = with(|facts| {
        durable(facts).bytes = 10 << 30;
        mirror(facts).sync.action = SyncAction::Check;
    });
    let rebuilds = with(|facts| {
        durable(facts).bytes = 10 << 30;
        mirror(facts).sync.action = SyncAction::Recover;
        fast(facts).flags.in_sync = false;
    });
    let worn = with(|facts| {
        durable(facts).bytes = 10 << 30;
        fast(facts).flags.write_error = true;
    });
    for facts in [small_locals, busy, rebuilds, worn] {
        assert!(!decided(&facts).1.contains(&Step::Grow), "{facts:?}");
    }
}

#[test]
fn a_growth_that_failed_is_tried_again_a_day_later() {
    let mut memory = Memory::default();
    memory.before(&Step::Grow, NOW - DAY + 1);
    assert!(!remembered(&grown(), &memory).1.contains(&Step::Grow));
    memory.before(&Step::Grow, NOW - DAY);
    assert_eq!(remembered(&grown(), &memory).1, [Step::Grow]);
    // The fast leg came back to a mirror of the old size: the plan succeeded, and nothing has grown.
    memory.before(&Step::Grow, NOW - 1);
    memory.after(&Step::Grow, 0);
    memory.observe(&grown(), NOW);
    assert!(!remembered(&grown(), &memory).1.contains(&Step::Grow));
    // One that has grown may grow again at once.
    memory.observe(&healthy(), NOW);
    assert_eq!(remembered(&grown(), &memory).1, [Step::Grow]);
}

#[test]
fn without_a_mirror_there_is_nothing_to_heal() {
    let facts = with(|facts| facts.mirror = None);
    assert_eq!(decided(&facts), (Condition::NotAssembled, vec![]));
}

#[test]
fn every_way_to_lose_the_durable_leg_freezes_and_does_nothing_else() {
    let losses: [(DurableLoss, Facts); 6] = [
        (
            DurableLoss::Removed,
            with(|facts| mirror(facts).durable = None),
        ),
        (
            DurableLoss::Faulty,
            with(|facts| durable(facts).flags.faulty = true),
        ),
        (
            DurableLoss::Gone,
            with(|facts| durable(facts).present = false),
        ),
        (
            DurableLoss::NotInSync,
            with(|facts| durable(facts).flags.in_sync = false),
        ),
        (
            DurableLoss::WriteError,
            with(|facts| durable(facts).flags.write_error = true),
        ),
        (
            DurableLoss::BadSectors(8),
            with(|facts| durable(facts).bad_sectors = 8),
        ),
    ];
    for (why, mut facts) in losses {
        // Not even settings, nor the fast leg: each could copy in the wrong direction.
        mirror(&mut facts).knobs.rotational = true;
        mirror(&mut facts).fast = None;
        let condition = |frozen| Condition::DurableLost { why, frozen };
        assert_eq!(decided(&facts), (condition(false), vec![Step::Freeze]));
        let frozen = Memory {
            frozen: true,
            ..Memory::default()
        };
        assert_eq!(
            remembered(&facts, &frozen),
            (condition(true), vec![Step::Freeze])
        );
        facts.mount = None;
        assert_eq!(
            decided(&facts),
            (condition(false), vec![]),
            "nothing to freeze"
        );
    }
}

#[test]
fn a_loss_that_is_over_stays_the_condition_while_the_filesystem_is_frozen() {
    let frozen = Memory {
        frozen: true,
        ..Memory::default()
    };
    let condition = Condition::DurableLost {
        why: DurableLoss::Returned,
        frozen: true,
    };
    // As it is asked for in each round, and nothing else.
    let facts = with(|facts| mirror(facts).knobs.rotational = true);
    assert_eq!(remembered(&facts, &frozen), (condition, vec![Step::Freeze]));
    // What is not mounted hangs nobody.
    let unmounted = with(|facts| facts.mount = None);
    assert_eq!(remembered(&unmounted, &frozen).0, Condition::Healthy);
}

#[test]
fn a_copy_in_a_direction_we_did_not_choose_is_stopped() {
    let facts = with(|facts| mirror(facts).sync.action = SyncAction::Resync);
    assert_eq!(
        decided(&facts),
        (Condition::WrongWay, vec![Step::FailFastLeg])
    );
    let durable_alone = with(|facts| {
        mirror(facts).sync.action = SyncAction::Resync;
        mirror(facts).fast = None;
    });
    assert_eq!(decided(&durable_alone).0, lost(WaitingOn::Step));
}

#[test]
fn a_failed_fast_leg_goes_step_by_step_and_never_the_durable_one() {
    let broken = |facts: &mut Facts| stripe(facts).broken = true;
    for (title, facts, step) in [
        (
            "unplugged before md noticed",
            with(|facts| stripe(facts).members[1].present = false),
            Step::FailFastLeg,
        ),
        ("broken, not yet kicked", with(broken), Step::FailFastLeg),
        (
            "kicked",
            with(|facts| fast(facts).flags.faulty = true),
            Step::RemoveFastLeg,
        ),
        (
            "kicked and broken",
            with(|facts| {
                broken(facts);
                fast(facts).flags.faulty = true;
            }),
            Step::RemoveFastLeg,
        ),
        (
            "removed and broken",
            with(|facts| {
                broken(facts);
                mirror(facts).fast = None;
            }),
            Step::StopStripe,
        ),
        (
            "its array is gone",
            with(|facts| facts.stripe = None),
            Step::FailFastLeg,
        ),
        ("removed, its devices live", kicked(), Step::ReAddFastLeg),
        ("new devices", blank_devices(), Step::RebuildFastLeg),
    ] {
        assert_eq!(
            decided(&facts),
            (lost(WaitingOn::Step), vec![step]),
            "{title}"
        );
    }
}

#[test]
fn a_leg_whose_bad_blocks_are_being_recorded_stays() {
    let said = |words| with(|facts| fast(facts).flags = Flags::from_words(words));
    let recording = said("faulty,in_sync,blocked");
    assert_eq!(decided(&recording), (Condition::Healthy, vec![]));
    // A spare that md's copy has just left.
    let (condition, steps) = decided(&said("faulty,blocked,spare"));
    assert_eq!((condition, steps), (lost(WaitingOn::Step), vec![]));
    let given_up = said("faulty");
    assert_eq!(decided(&given_up).1, [Step::RemoveFastLeg]);
}

#[test]
fn too_few_devices_are_waited_for() {
    let facts = Facts {
        local_found: 1,
        ..blank_devices()
    };
    let waiting = WaitingOn::LocalDevices {
        found: 1,
        wanted: 2,
    };
    assert_eq!(decided(&facts), (lost(waiting), vec![]));
}

#[test]
fn a_leg_being_filled_is_left_to_it() {
    let facts = with(|facts| {
        fast(facts).flags.in_sync = false;
        mirror(facts).sync.action = SyncAction::Recover;
    });
    assert_eq!(decided(&facts), (Condition::Rebuilding, vec![]));
}

#[test]
fn a_leg_that_nothing_fills_is_waited_for_then_said_with_its_sector_and_begun_anew() {
    let facts = with(|facts| {
        fast(facts).flags.in_sync = false;
        fast(facts).filled_sectors = Some(4096);
        mirror(facts).sync.action = SyncAction::Idle;
    });
    let stopped = WaitingOn::DurableUnreadable { sector: 4096 };
    let mut memory = Memory::default();
    memory.observe(&facts, NOW);
    let at = |memory: &Memory, later| {
        let Decision {
            condition, steps, ..
        } = decide(&LIMITS, &facts, memory, NOW + later);
        (condition, steps)
    };
    assert_eq!(at(&memory, 0), (lost(WaitingOn::Step), vec![]));
    memory.observe(&facts, NOW + 30);
    assert_eq!(at(&memory, 30), (lost(stopped), vec![]));
    let anew = vec![Step::FailFastLeg];
    assert_eq!(at(&memory, 6 * HOUR), (lost(stopped), anew));
    memory.after(&Step::FailFastLeg, 0);
    assert_eq!(remembered(&kicked(), &memory).1, [Step::RebuildFastLeg]);
    for _ in 0..3 {
        memory.before(&Step::RebuildFastLeg, NOW);
    }
    assert_eq!(
        at(&memory, 6 * HOUR),
        (lost(stopped), vec![]),
        "three a day"
    );
    memory.observe(&healthy(), NOW);
    assert_eq!(memory.stalled_since, None);
}

#[test]
fn beats_that_do_not_come_are_said() {
    let mut memory = Memory::default();
    let said =
        |memory: &Memory, facts: &Facts, later| decide(&LIMITS, facts, memory, NOW + later).notices;
    memory.observe(&healthy(), NOW);
    assert_eq!(said(&memory, &healthy(), 119), []);
    assert_eq!(said(&memory, &healthy(), 120), [Notice::NoBeat(120)]);
    memory.beat(NOW + 115, BrokenSlots::default());
    assert_eq!(said(&memory, &healthy(), 120), []);
    let lost = with(|facts| durable(facts).flags.faulty = true);
    assert_eq!(said(&memory, &lost, 600), []);
}

#[test]
fn a_slot_that_takes_no_header_is_said_and_nothing_is_done_about_it() {
    let mut memory = Memory::default();
    let broken = BrokenSlots {
        durable: false,
        fast: true,
    };
    memory.beat(NOW, broken);
    let decision = decide(&LIMITS, &healthy(), &memory, NOW);
    assert_eq!(decision.notices, [Notice::BrokenSlots(broken)]);
    assert_eq!(decision.condition, Condition::Healthy);
    assert_eq!(decision.steps, []);
    memory.beat(NOW + 10, BrokenSlots::default());
    assert_eq!(decide(&LIMITS, &healthy(), &memory, NOW + 10).notices, []);
}

#[test]
fn a_clock_that_was_a_month_ahead_delays_no_repair_by_more_than_its_pause() {
    const MONTH: Seconds = 30 * DAY;
    let ahead = NOW + MONTH;
    let stalled = with(|facts| {
        fast(facts).flags.in_sync = false;
        mirror(facts).sync.action = SyncAction::Idle;
    });
    let mut memory = Memory::default();
    memory.observe(&grown(), ahead);
    memory.before(&Step::Grow, ahead);
    memory.before(&Step::RebuildFastLeg, ahead);
    memory.beat(ahead, BrokenSlots::default());
    memory.check.last_finished = Some(ahead);
    // The clock is set right.
    memory.observe(&grown(), NOW);
    let at = |facts: &Facts, later| decide(&LIMITS, facts, &memory, NOW + later);
    let pause = lost(WaitingOn::Pause(NOW + 600));
    assert_eq!(at(&blank_devices(), 0).condition, pause);
    assert_eq!(at(&blank_devices(), 600).steps, [Step::RebuildFastLeg]);
    assert_eq!(at(&grown(), DAY - 1).steps, []);
    assert_eq!(at(&grown(), DAY).steps, [Step::Grow]);
    assert_eq!(at(&healthy(), NO_BEAT).notices, [Notice::NoBeat(NO_BEAT)]);
    assert_eq!(memory.check.last_finished, Some(NOW));
    memory.observe(&stalled, ahead);
    memory.observe(&stalled, NOW);
    assert_eq!(memory.stalled_since, Some(NOW));
}

/// Runs the decision for a day against a world that answers every step with `facts`; what was tried, and when.
fn a_day_of(facts: &Facts) -> Vec<(Seconds, Step)> {
    let mut memory = Memory::default();
    let mut tried = Vec::new();
    for minute in 0..24 * 60 {
        let now = NOW + minute * 60;
        for step in decide(&LIMITS, facts, &memory, now).steps {
            memory.before(&step, now);
            memory.after(&step, 0);
            tried.push((minute, step));
        }
    }
    tried
}

#[test]
fn a_leg_that_is_kicked_again_and_again_is_tried_with_growing_pauses_and_then_given_up() {
    let (add, build) = (Step::ReAddFastLeg, Step::RebuildFastLeg);
    assert_eq!(
        a_day_of(&kicked()),
        [
            (0, add.clone()),
            (1, add.clone()),
            (3, add.clone()),
            (3 + 1, build.clone()),
            (14, build.clone()),
            (34, build),
            (60, add.clone()),
            (62, add.clone()),
            (64, add),
        ]
    );
    let mut memory = Memory::default();
    for minute in [0, 1, 2] {
        memory.before(&Step::RebuildFastLeg, NOW - 7200 + minute * 60);
        memory.before(&Step::ReAddFastLeg, NOW - minute);
    }
    let given_up = lost(WaitingOn::GivenUp(NOW - 7200 + DAY));
    assert_eq!(remembered(&kicked(), &memory), (given_up, vec![]));
}

#[test]
fn devices_that_cannot_be_built_on_are_tried_three_times_a_day() {
    let minutes: Vec<_> = a_day_of(&blank_devices());
    let build = |minute| (minute, Step::RebuildFastLeg);
    assert_eq!(minutes, [build(0), build(10), build(30)]);
}

#[test]
fn a_pause_says_until_when() {
    let mut memory = Memory::default();
    memory.before(&Step::ReAddFastLeg, NOW - 10);
    let waiting = lost(WaitingOn::Pause(NOW + 50));
    assert_eq!(remembered(&kicked(), &memory), (waiting, vec![]));
}

#[test]
fn bad_sectors_are_tried_again_and_too_many_are_a_reason_to_copy_everything() {
    let few = with(|facts| {
        fast(facts).bad_sectors = 8;
        fast(facts).flags.write_error = true;
    });
    assert_eq!(
        decided(&few),
        (Condition::Healthy, vec![Step::ClearWriteError])
    );
    let notices = decide(&LIMITS, &few, &Memory::default(), NOW).notices;
    assert_eq!(notices, [Notice::FastBadSectors(8)]);

    let many = with(|facts| fast(facts).bad_sectors = 4096);
    assert_eq!(decided(&many).1, [Step::FailFastLeg]);
    let mut memory = Memory::default();
    memory.after(&Step::FailFastLeg, 4096);
    assert_eq!(remembered(&kicked(), &memory).1, [Step::RebuildFastLeg]);
    memory.before(&Step::RebuildFastLeg, NOW);
    memory.after(&Step::RebuildFastLeg, 0);
    assert_eq!(
        remembered(&many, &memory),
        (Condition::Healthy, vec![]),
        "once a day"
    );
}

#[test]
fn settings_that_md_forgot_are_set_again() {
    let facts = with(|facts| {
        mirror(facts).knobs = Knobs {
            max_read_errors: 20,
            sync_speed_min: 1000,
            sync_speed_max: 200_000,
            rotational: true,
            backlog: 256,
            sync_ends_early: true,
        };
        durable(facts).flags.write_mostly = false;
        fast(facts).flags.write_mostly = true;
    });
    let set: Vec<String> = decided(&facts).1.iter().map(ToString::to_string).collect();
    let notices = decide(&LIMITS, &facts, &Memory::default(), NOW).notices;
    assert_eq!(notices, [Notice::WriteBehind(256)]);
    assert_eq!(
        set,
        [
            "set md/max_read_errors to 1000000",
            "set md/sync_speed_min to 50000",
            "set md/sync_speed_max to 400000",
            "set queue/rotational to 0",
            "set md/bitmap/backlog to 0",
            "set md/sync_max to max",
            "set md/dev-{durable}/state to writemostly",
            "set md/dev-{fast}/state to -writemostly",
        ]
    );
}

#[test]
fn what_is_mounted_and_where_the_durable_leg_sits_is_said() {
    let said = |facts: &Facts| decide(&LIMITS, facts, &Memory::default(), NOW).notices;
    let mount = |facts: &mut Facts, change: fn(&mut Mount)| change(facts.mount.as_mut().unwrap());
    for (facts, notice) in [
        (with(|facts| facts.mount = None), Notice::NotMounted),
        (
            with(|facts| mount(facts, |mount| mount.device = "sda1".to_owned())),
            Notice::ForeignMount,
        ),
        (
            with(|facts| mount(facts, |mount| mount.read_only = true)),
            Notice::ReadOnly,
        ),
        (
            with(|facts| durable(facts).slot = Some(1)),
            Notice::DurableSlot(1),
        ),
        (
            with(|facts| stripe(facts).members[0].present = false),
            Notice::MembersGone(1),
        ),
    ] {
        assert_eq!(said(&facts), [notice]);
    }
}
