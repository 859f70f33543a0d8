use readstates_ring::Line;

use super::*;

const DEAD_AFTER: Duration = Duration::from_secs(13);

fn says(name: &str, bits: u64, renewals: u64) -> Presence {
    Presence {
        name: name.into(),
        incarnation: Incarnation::new(bits),
        url: format!("http://{name}"),
        members: None,
        admin: None,
        zone: None,
        ordinal: None,
        draining: false,
        gone: false,
        renewals,
        unix_micros: None,
        line: None,
        epoch: None,
        clock_wrong: false,
        reads: None,
        replicates: None,
    }
}

/// Observes as a process whose clock agrees with the others' and that was not away before.
fn observe(watch: &mut Watch, presences: Vec<Presence>, table: &RingTable, now: Instant) {
    watch.pause = watch.looked.map_or(Duration::ZERO, |looked| {
        now.saturating_duration_since(looked)
    });
    watch.observe(presences, table, now, 0);
}

#[test]
fn who_is_silent_for_long_enough_is_dead_and_who_says_so_is_gone_at_once() {
    let (a, b) = (Incarnation::new(1), Incarnation::new(2));
    let (mut watch, start) = (Watch::new(a, DEAD_AFTER), Instant::now());
    let table = RingTable::default();
    observe(
        &mut watch,
        vec![says("a", 1, 1), says("b", 2, 1)],
        &table,
        start,
    );
    let later = start + Duration::from_secs(12);
    observe(
        &mut watch,
        vec![says("a", 1, 4), says("b", 2, 1)],
        &table,
        later,
    );
    assert!(!watch.is_dead(b, later));
    assert_eq!(watch.live(later).len(), 2);
    let late = start + DEAD_AFTER;
    assert!(watch.is_dead(b, late) && !watch.is_gone(b));
    assert!(!watch.is_dead(a, late), "no process takes itself for dead");
    assert_eq!(watch.live(late).len(), 1);
    observe(&mut watch, vec![says("b", 2, 2)], &table, late);
    assert!(!watch.is_dead(b, late), "it was only slow");
    let gone = Presence {
        gone: true,
        ..says("b", 2, 3)
    };
    observe(&mut watch, vec![gone], &table, late);
    assert!(watch.is_dead(b, late) && watch.is_gone(b));
}

#[test]
fn the_more_there_are_the_rarer_are_looks_unless_somebody_is_silent() {
    let (me, start, every) = (Incarnation::new(1), Instant::now(), Duration::from_secs(2));
    let table = RingTable::default();
    let says = |count: u64, renewals| {
        let each = (1..=count).map(|bits| says(&format!("chat-{bits}"), bits, renewals));
        each.collect::<Vec<_>>()
    };
    let next = |watch: &mut Watch, now| {
        [0.0, 0.5, 1.0].map(|share| watch.next_look(&table, now, every, share).as_millis())
    };
    let mut watch = Watch::new(me, DEAD_AFTER);
    observe(&mut watch, says(16, 1), &table, start);
    assert_eq!(next(&mut watch, start), [2000, 2000, 2000]);
    observe(&mut watch, says(64, 1), &table, start);
    assert_eq!(next(&mut watch, start), [6000, 8000, 10000]);
    observe(&mut watch, says(1000, 1), &table, start);
    assert_eq!(next(&mut watch, start), [6000, 8000, 10000]);
    let later = start + DEAD_AFTER / 3;
    assert_eq!(
        next(&mut watch, later),
        [2000, 2000, 2000],
        "all are silent"
    );
    observe(&mut watch, says(1000, 2), &table, later);
    assert_eq!(next(&mut watch, later), [6000, 8000, 10000]);
}

#[test]
fn an_owner_that_never_said_a_word_is_dead_after_the_same_time() {
    let (a, b) = (Incarnation::new(1), Incarnation::new(2));
    let (mut watch, start) = (Watch::new(a, DEAD_AFTER), Instant::now());
    let owner = says("b", 2, 0).member().unwrap();
    let slots = [(readstates_ring::Slot::of_user(1), None)];
    let handed = readstates_ring::Succession::TakenOver;
    let table = RingTable::default().swap(&slots, &owner, handed, 1_i64 << 50);
    let table = table.unwrap();
    observe(&mut watch, vec![], &table, start);
    assert!(!watch.is_dead(b, start));
    observe(&mut watch, vec![], &table, start + DEAD_AFTER);
    assert!(watch.is_dead(b, start + DEAD_AFTER));
    assert!(watch.live(start).is_empty());
}

/// Watches another member for two minutes: `renews` says when it renews, `looks` when looking works, `renewed` when
/// this member's own renewals do. Returns the second at which the other is dead.
fn dead_after(
    renews: impl Fn(u64) -> bool,
    looks: impl Fn(u64) -> bool,
    renewed: impl Fn(u64) -> bool,
) -> Option<u64> {
    let (me, other, start) = (Incarnation::new(1), Incarnation::new(2), Instant::now());
    let (mut watch, table) = (Watch::new(me, DEAD_AFTER), RingTable::default());
    let mut renewals = 0;
    for second in 0..120 {
        let now = start + Duration::from_secs(second);
        renewals += u64::from(second.is_multiple_of(3) && renews(second));
        if second.is_multiple_of(3) {
            watch.spoke(renewed(second));
        }
        if second.is_multiple_of(2) {
            if !looks(second) {
                watch.missed();
                continue;
            }
            let words = vec![says("a", 1, second), says("b", 2, renewals)];
            watch.observe(words, &table, now, 0);
            watch.next_look(&table, now, Duration::from_secs(2), 0.5);
            if watch.is_dead(other, now) {
                return Some(second);
            }
        }
    }
    None
}

#[test]
fn silence_counts_only_while_looking_works() {
    let died = |second| second < 20;
    assert_eq!(dead_after(died, |_| true, |_| true), Some(32));
    for away in [4, 8, 12, 14, 16, 20, 25, 30, 40, 60] {
        let there = |second: u64| !(20..20 + away).contains(&second);
        assert_eq!(dead_after(there, there, there), None, "away for {away} s");
        // Read, and not written: no process can renew.
        let alive = dead_after(there, |_| true, there);
        assert_eq!(alive, None, "takes nothing for {away} s");
        // Written, and not read.
        assert_eq!(dead_after(|_| true, there, |_| true), None);
        // A process that does die is taken for dead all the same, some seconds later.
        let dead = dead_after(died, there, there).unwrap();
        assert!((32..=20 + away + 16).contains(&dead), "{dead}");
    }
}

#[test]
fn a_store_that_fails_every_now_and_then_makes_nobody_immortal() {
    let often = |second: u64| !second.is_multiple_of(10);
    let dead = dead_after(|second| second < 20, often, |_| true).unwrap();
    assert!(dead <= 50, "{dead}");
}

#[test]
fn whoever_was_stopped_itself_takes_nobody_for_dead() {
    let (me, other, start) = (Incarnation::new(1), Incarnation::new(2), Instant::now());
    let (mut watch, table) = (Watch::new(me, DEAD_AFTER), RingTable::default());
    for second in [0, 2, 4, 24, 26, 28] {
        let now = start + Duration::from_secs(second);
        watch.observe(vec![says("b", 2, 1)], &table, now, 0);
        watch.next_look(&table, now, Duration::from_secs(2), 0.5);
        assert!(!watch.is_dead(other, now), "after {second} s");
    }
}

#[test]
fn whoever_a_restored_store_has_forgotten_lives_on_and_is_asked_what_it_has_seen() {
    let (me, start) = (Incarnation::new(1), Instant::now());
    let (mut watch, table) = (Watch::new(me, DEAD_AFTER), RingTable::default());
    let (line, other) = (Line::new(7), Incarnation::new(2));
    let on = |renewals, line| Presence {
        line,
        ..says("b", 2, renewals)
    };
    let old = says("c", 3, 1);
    let words = vec![on(1, Some(Line::NONE)), old.clone()];
    observe(&mut watch, words, &table, start);
    assert_eq!(
        watch.not_on(line, start),
        [other],
        "not of the release before"
    );
    let now = start + Duration::from_secs(2);
    observe(&mut watch, vec![old.clone()], &table, now);
    assert_eq!(
        watch.not_on(line, now),
        [other],
        "it was forgotten, and lives"
    );
    observe(&mut watch, vec![on(2, Some(line)), old], &table, now);
    assert_eq!(watch.not_on(line, now), []);
    let late = now + DEAD_AFTER;
    observe(&mut watch, vec![], &table, late);
    assert_eq!(watch.not_on(Line::new(8), late), [], "it is dead");
    assert_eq!(
        watch.dead_not_on(&table, late),
        [other],
        "what it said counts"
    );
    observe(&mut watch, vec![], &table, now + DEAD_AFTER * REMEMBERED);
    assert!(watch.seen.is_empty());
}

#[test]
fn clocks_are_compared_when_somebody_has_just_spoken() {
    let (me, start) = (Incarnation::new(1), Instant::now());
    let (mut watch, table) = (Watch::new(me, DEAD_AFTER), RingTable::default());
    let told = |bits, renewals, unix_micros| Presence {
        unix_micros,
        ..says("chat", bits, renewals)
    };
    let old = told(4, 1, None);
    let words = vec![told(2, 1, Some(0)), told(3, 1, Some(5_000)), old.clone()];
    watch.observe(words, &table, start, 100);
    assert!(watch.clocks(start).unheard, "it may have spoken long ago");
    let now = start + Duration::from_secs(2);
    let words = vec![told(2, 1, Some(0)), told(3, 2, Some(7_000)), old.clone()];
    watch.observe(words, &table, now, 2_000);
    let clocks = watch.clocks(now);
    assert_eq!((&*clocks.members, clocks.unheard), (&[5_000][..], true));
    // Nothing more is heard of 2.
    let mut later = now;
    for renewals in 3..10 {
        later += Duration::from_secs(2);
        let words = vec![
            told(2, 1, Some(0)),
            told(3, renewals, Some(14_000)),
            old.clone(),
        ];
        watch.observe(words, &table, later, 13_000);
    }
    let clocks = watch.clocks(later);
    assert_eq!((&*clocks.members, clocks.unheard), (&[1_000][..], false));
}
