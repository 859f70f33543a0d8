//! When legs are compared, how far, and what is found.

use super::*;

/// Plays md: does what a step asks, and lets a check run to where it may.
fn play(facts: &mut Facts, step: &Step) {
    let md = mirror(facts);
    match step {
        Step::StartCheck { to, .. } => {
            md.sync.action = SyncAction::Check;
            md.knobs.sync_ends_early = to.is_some();
            md.mismatch_sectors = 128;
            md.sync.progress = to.map(|to| (to, md.bytes / 512));
            if to.is_none() {
                md.sync.action = SyncAction::Idle;
            }
        }
        Step::EndCheckWindow => {
            md.sync.action = SyncAction::Idle;
            md.sync.progress = None;
            md.knobs.sync_ends_early = false;
        }
        Step::Set(Setting::Knob(Knob::SyncSpeedMin | Knob::SyncSpeedMax, _)) => {}
        other => panic!("{other} was not asked for"),
    }
}

#[test]
fn a_month_after_the_last_check_the_legs_are_compared_in_windows_and_differences_added_up() {
    let mut facts = healthy();
    let mut memory = Memory::default();
    let mut steps = Vec::new();
    for hour in 0..31 * 24 {
        let now = NOW + hour * HOUR;
        memory.check.observe(facts.mirror.as_ref().unwrap(), now);
        for step in decide(&LIMITS, &facts, &memory, now).steps {
            play(&mut facts, &step);
            memory.after(&step, 0);
            if !matches!(step, Step::Set(_)) {
                steps.push((hour, step.to_string()));
            }
        }
    }
    let said: Vec<(Seconds, &str)> = steps.iter().map(|(hour, step)| (*hour, &**step)).collect();
    assert_eq!(
        said,
        [
            (720, "check sectors 0 to 8388608"),
            (721, "end this part of the check"),
            (722, "check from sector 8388608 to the end"),
        ]
    );
    assert_eq!(memory.check.last_finished, Some(NOW + 723 * HOUR));
    assert_eq!(memory.check.last_mismatch, 256);
    let notices = decide(&LIMITS, &facts, &memory, NOW + 724 * HOUR).notices;
    assert_eq!(notices, [Notice::Mismatch(256)]);
}

/// As `superdisk status` and `superdisk teardown` look at it.
#[test]
fn who_never_compares_decides_nothing_of_it() {
    let mut memory = Memory::default();
    memory.check.last_finished = Some(NOW);
    let never = Limits {
        check_every: Seconds::MAX,
        ..LIMITS
    };
    let decision = decide(&never, &healthy(), &memory, NOW + 365 * DAY);
    assert_eq!(decision.steps, []);
}

#[test]
fn a_check_is_slow_and_is_not_begun_while_a_leg_is_away() {
    let due = Memory {
        check: check::CheckMemory {
            last_finished: Some(NOW - 31 * DAY),
            ..check::CheckMemory::default()
        },
        ..Memory::default()
    };
    assert_eq!(remembered(&kicked(), &due).1, [Step::ReAddFastLeg]);
    let running = with(|facts| mirror(facts).sync.action = SyncAction::Check);
    let slower = [
        Step::Set(Setting::Knob(Knob::SyncSpeedMin, 30_000)),
        Step::Set(Setting::Knob(Knob::SyncSpeedMax, 30_000)),
    ];
    assert_eq!(remembered(&running, &due).1, slower);
}

#[test]
fn an_interrupted_check_goes_on_at_its_window() {
    let mut memory = Memory::default();
    memory.check.last_finished = Some(NOW - 31 * DAY);
    memory.check.position = 8_388_608;
    memory.after(
        &Step::StartCheck {
            from: 8_388_608,
            to: Some(12_000_000),
        },
        0,
    );
    let interrupted = with(|facts| mirror(facts).sync.action = SyncAction::Recover);
    memory
        .check
        .observe(interrupted.mirror.as_ref().unwrap(), NOW);
    assert_eq!(
        (memory.check.position, memory.check.window),
        (8_388_608, None)
    );
    assert_eq!(
        remembered(&healthy(), &memory).1,
        [Step::StartCheck {
            from: 8_388_608,
            to: None
        }]
    );
}
