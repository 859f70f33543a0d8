use super::*;
use crate::{
    answer::Answer,
    process::{CPU_SECONDS, RESIDENT_BYTES},
    schedule::SECOND,
    steal::STOLEN_MILLIS,
};

/// Ten seconds of 1 ms, of which the named ones took 5 ms while a counter ran.
pub(crate) fn report(slow: &[u64]) -> Report {
    let mut flushes = 0.0;
    let windows: Vec<Second> = (0..10)
        .map(|number| {
            let mut window = Window::new(number);
            let millis = if slow.contains(&number) { 5 } else { 1 };
            window.add(SECOND / 1000 * millis, &[Answer::Applied]);
            flushes += if slow.contains(&number) { 90.0 } else { 3.0 };
            let mut second = Second::of(&window);
            second.metrics = Some(Sample::from([
                ("flushes_total".to_owned(), flushes),
                ("states".to_owned(), 7.0),
            ]));
            second
        })
        .collect();
    Report {
        title: "Test".into(),
        started: "2026-01-01T00:00:00Z".into(),
        settings: Settings {
            rate: Some(1.0),
            connections: 1,
            threads: 1,
            depth: 1,
            per_request: 1,
            users: 1,
            channels: 1,
            keys: "uniform".into(),
            mix: "ack=1".into(),
            seed: 1,
        },
        seconds: 10.0,
        requests: 10,
        operations: Operations::default(),
        operations_per_second: 1.0,
        latency: Latency::default(),
        evenness: Evenness::of(&windows),
        generator: Generator::default(),
        warnings: vec!["Told.".into()],
        check: None,
        windows,
    }
}

#[test]
fn seconds_above_twice_the_median_are_counted_and_what_ran_in_them_is_named() {
    let report = report(&[4, 7]);
    assert_eq!(report.evenness.seconds_above_twice_median, 2);
    let suspects = suspects(&report);
    assert_eq!(
        suspects.len(),
        1,
        "what is constant is no suspect: {suspects:?}"
    );
    assert_eq!((suspects[0].slow, suspects[0].others), (90.0, 3.0));
    let text = text(&report);
    for part in ["2 of 10 above", "flushes_total was 90.0", "note: Told."] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn what_processes_took_is_told_by_operation_where_they_were_watched() {
    let mut report = report(&[]);
    assert_eq!(usage(&report), None);
    for second in &mut report.windows[2..=7] {
        let cpu = second.second as f64 * 0.5;
        let bytes = 1000.0 - second.second as f64;
        second.succeeded = 100;
        second.metrics = Some(Sample::from([
            (CPU_SECONDS.to_owned(), cpu),
            (RESIDENT_BYTES.to_owned(), bytes),
        ]));
    }
    let usage = usage(&report).unwrap();
    // Half a second for a hundred, from the end of second 2 to that of second 7.
    assert_eq!(usage.cpu_seconds_per_million, 5000.0);
    assert_eq!(usage.resident_bytes, 998.0);
}

/// A report of even seconds, from each of which this many milliseconds were stolen.
pub(crate) fn robbed(millis: f64) -> Report {
    let mut report = report(&[]);
    for second in &mut report.windows {
        let metrics = second.metrics.get_or_insert_default();
        metrics.insert(STOLEN_MILLIS.to_owned(), millis * second.second as f64);
    }
    report
}

#[test]
fn what_was_stolen_is_told_apart_by_slow_seconds_and_the_others() {
    let mut report = report(&[4, 7]);
    assert_eq!(stolen(&report), None);
    // Of the ten seconds nine have one before them: 50 ms in second 4, none in 7, and 7 ms together in the others.
    let by_second = [0.0, 7.0, 0.0, 0.0, 50.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    let mut count = 1000.0;
    for (second, millis) in report.windows.iter_mut().zip(by_second) {
        count += millis;
        let metrics = second.metrics.get_or_insert_default();
        metrics.insert(STOLEN_MILLIS.to_owned(), count);
    }
    let expected = Stolen {
        total: 57.0,
        worst: 50.0,
        slow: 25.0,
        others: 1.0,
    };
    assert_eq!(stolen(&report), Some(expected));
}

#[test]
fn an_even_run_has_no_suspects() {
    let report = report(&[]);
    assert_eq!(report.evenness.seconds_above_twice_median, 0);
    assert!(suspects(&report).is_empty());
}

#[test]
fn a_line_per_second_has_the_columns_that_its_head_names() {
    let csv = csv(&report(&[4]));
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 11);
    assert!(lines[0].ends_with("max_ms,flushes_total,states"));
    assert!(
        lines[5].starts_with("4,1,1,0,5.0") && lines[5].ends_with(",102,7"),
        "{}",
        lines[5]
    );
}

#[test]
fn a_report_is_read_back_as_it_was_written() {
    let report = report(&[4]);
    let json = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
}
