//! The figures of a report: every number of every table of its page, by name; and how two reports compare.
//!
//! The page is the only source, so that whatever it shows is in the JSON, too. A figure's name is
//! `section / row / column`: the row by its first cell and by those of every other column aligned to the left.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::{Deserialize, Serialize};

/// One number of a report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// `section / row / column`; a column says its unit.
    pub name: String,
    /// The number.
    pub value: f64,
}

/// All numbers of all tables of a page, in its order. Ratios (columns with a ×) are none: they follow from others.
#[must_use]
pub fn of_page(page: &str) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut section = String::new();
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(heading) = line.strip_prefix("##") {
            heading.trim_matches(['#', ' ']).clone_into(&mut section);
        }
        let below = lines.peek().copied().unwrap_or_default();
        if !(line.starts_with('|') && below.starts_with("|--")) {
            continue;
        }
        let (columns, alignment) = (cells(line), cells(below));
        lines.next();
        while let Some(row) = lines.next_if(|line| line.starts_with('|')) {
            add_row(&section, &columns, &alignment, &cells(row), &mut figures);
        }
    }
    figures
}

/// Cells without the marks of emphasis and code.
fn cells(line: &str) -> Vec<String> {
    let inner = line.trim().trim_matches('|');
    inner
        .split('|')
        .map(|cell| cell.trim().replace(['*', '`'], ""))
        .collect()
}

fn add_row(
    section: &str,
    columns: &[String],
    alignment: &[String],
    row: &[String],
    figures: &mut Vec<Figure>,
) {
    let is_name =
        |place: usize| place == 0 || alignment.get(place).is_some_and(|it| !it.ends_with(':'));
    let names: Vec<&str> = row
        .iter()
        .enumerate()
        .filter(|(place, _)| is_name(*place))
        .map(|(_, cell)| cell.as_str())
        .collect();
    let names = names.join(", ");
    for (place, (column, cell)) in columns.iter().zip(row).enumerate() {
        if let (false, false, Some((value, unit))) =
            (is_name(place), column.contains('×'), number(cell))
        {
            let name = format!("{section} / {names} / {column}{unit}");
            figures.push(Figure { name, value });
        }
    }
}

/// A number, and the unit behind it where the column does not say it, as ` unit`.
fn number(cell: &str) -> Option<(f64, String)> {
    let (number, unit) = match cell.split_once(' ') {
        Some((number, unit)) => (number, format!(" {unit}")),
        None => (cell, String::new()),
    };
    let value: f64 = number.replace(',', "").parse().ok()?;
    value.is_finite().then_some((value, unit))
}

/// A figure that became worse by more than chance.
#[derive(Debug, Clone, PartialEq)]
pub struct Worse {
    /// The figure.
    pub name: String,
    /// In the old report.
    pub old: f64,
    /// In the new one.
    pub new: f64,
    /// How many times slower or larger it became; above 1.
    pub ratio: f64,
}

/// A change of less is chance: two runs of the same program on one machine differ by as much.
pub const TOLERANCE: f64 = 1.1;
/// The same of the tail: p99 and beyond, the slowest, the worst.
pub const TAIL_TOLERANCE: f64 = 1.5;

/// What became worse, worst first. Of what one report does not have nothing is said, nor of what was stolen from the
/// machine. More is worse, except of what is counted by time; a number that only names a size does not change.
#[must_use]
pub fn compare(old: &[Figure], new: &[Figure]) -> Vec<Worse> {
    let before: BTreeMap<&str, f64> = old
        .iter()
        .map(|figure| (figure.name.as_str(), figure.value))
        .collect();
    let mut worse: Vec<Worse> = new
        .iter()
        .filter(|figure| !column(&figure.name).contains("stolen"))
        .filter_map(|Figure { name, value }| {
            let old = *before.get(name.as_str())?;
            let ratio = match more_is_better(name) {
                true => old / value,
                false => value / old,
            };
            (ratio > tolerance(name)).then(|| Worse {
                name: name.clone(),
                old,
                new: *value,
                ratio,
            })
        })
        .collect();
    worse.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
    worse
}

fn column(name: &str) -> &str {
    name.rsplit(" / ").next().unwrap_or(name)
}

fn more_is_better(name: &str) -> bool {
    column(name).contains("/s")
}

fn tolerance(name: &str) -> f64 {
    let tail = ["p99", "max", "worst", "above twice"];
    match tail.iter().any(|word| column(name).contains(word)) {
        true => TAIL_TOLERANCE,
        false => TOLERANCE,
    }
}

/// What became worse, for people.
#[must_use]
pub fn text(worse: &[Worse], compared: usize) -> String {
    let mut out = format!(
        "{} of {compared} figures became worse, by more than {:.0} % (p99 and beyond: {:.0} %)\n",
        worse.len(),
        (TOLERANCE - 1.0) * 100.0,
        (TAIL_TOLERANCE - 1.0) * 100.0
    );
    for Worse {
        name,
        old,
        new,
        ratio,
    } in worse
    {
        // Into a string, which takes everything.
        let _ = writeln!(out, "  × {ratio:.2}  {name}: {old} → {new}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Head\n\n| not | a table |\n\n## Load\n\nText.\n\n\
        | run | operations/s | × ours | p99.9 ms | failed |\n|---|--:|--:|--:|--:|\n\
        | **ours** | 1,000 | 1.00 | 2.5 | 0 |\n| `go` list | 500 | 0.50 | – | 0 |\n\n\
        ### Memory\n\n| structure | states | bytes |\n|---|---|--:|\n| ours | 10 | 27.5 |\n| ours | 20 | 26 MiB |\n";

    fn figure(name: &str, value: f64) -> Figure {
        let name = name.to_owned();
        Figure { name, value }
    }

    #[test]
    fn every_number_of_a_table_is_a_figure_and_ratios_and_dashes_are_none() {
        let expected = [
            figure("Load / ours / operations/s", 1000.0),
            figure("Load / ours / p99.9 ms", 2.5),
            figure("Load / ours / failed", 0.0),
            figure("Load / go list / operations/s", 500.0),
            figure("Load / go list / failed", 0.0),
            figure("Memory / ours, 10 / bytes", 27.5),
            figure("Memory / ours, 20 / bytes MiB", 26.0),
        ];
        assert_eq!(of_page(PAGE), expected);
    }

    #[test]
    fn figures_are_read_back_from_json_as_they_were_written() {
        let golden = r#"[{"name":"Load / ours / operations/s","value":1000.0}]"#;
        let figures: Vec<Figure> = serde_json::from_str(golden).unwrap();
        assert_eq!(figures, of_page(PAGE)[..1]);
        assert_eq!(serde_json::to_string(&figures).unwrap(), golden);
    }

    #[test]
    fn what_became_slower_or_larger_is_named_with_its_ratio_worst_first() {
        let golden = |rate, median, tail, bytes, failed| -> Vec<Figure> {
            let json = format!(
                r#"[{{"name":"a / ours / operations/s","value":{rate}}},{{"name":"a / ours / p50 ms","value":{median}}},
                {{"name":"a / ours / p99.9 ms","value":{tail}}},{{"name":"m / ours / bytes","value":{bytes}}},
                {{"name":"a / ours / failed","value":{failed}}}]"#
            );
            serde_json::from_str(&json).unwrap()
        };
        let old = golden(1000, 1.0, 2.0, 30, 0);
        let names = |new: &[Figure]| -> Vec<(String, String)> {
            let worse = compare(&old, new);
            let pair = |worse: Worse| (worse.name, format!("{:.2}", worse.ratio));
            worse.into_iter().map(pair).collect()
        };
        assert_eq!(names(&old), []);
        let within_chance = golden(950, 1.05, 2.9, 32, 0);
        assert_eq!(names(&within_chance), []);
        let better = golden(5000, 0.1, 0.2, 3, 0);
        assert_eq!(names(&better), []);
        let pair = |name: &str, ratio: &str| (name.to_owned(), ratio.to_owned());
        assert_eq!(
            names(&golden(500, 1.2, 6.0, 34, 7)),
            [
                pair("a / ours / failed", "inf"),
                pair("a / ours / p99.9 ms", "3.00"),
                pair("a / ours / operations/s", "2.00"),
                pair("a / ours / p50 ms", "1.20"),
                pair("m / ours / bytes", "1.13"),
            ]
        );
    }

    #[test]
    fn what_only_one_report_has_is_not_compared() {
        let (one, other) = ([figure("a / b / c", 1.0)], [figure("a / b / d", 9.0)]);
        assert_eq!(compare(&one, &other), []);
        let stolen = |ms| [figure("a / b / stolen in the others, ms a second", ms)];
        assert_eq!(compare(&stolen(1.0), &stolen(9.0)), []);
        let text = text(&compare(&one, &[figure("a / b / c", 2.0)]), 1);
        assert!(text.starts_with("1 of 1 figures became worse, by more than 10 %"));
        assert!(text.contains("× 2.00  a / b / c: 1 → 2"), "{text}");
    }
}
