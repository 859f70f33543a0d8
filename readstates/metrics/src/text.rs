//! Prometheus' text format.

use std::{
    collections::BTreeMap,
    fmt::{Arguments, Write},
};

use crate::{Histogram, histogram::Reading};

/// The families of a page as rows of a Markdown table, in order: name, kind and meaning. Lists in documentation are compared
/// with it.
#[must_use]
pub fn table_of(page: &str) -> Vec<String> {
    let mut meanings = BTreeMap::new();
    let mut rows = Vec::new();
    for line in page.lines() {
        if let Some((name, meaning)) = after(line, "# HELP ") {
            meanings.insert(name, meaning);
        } else if let Some((name, kind)) = after(line, "# TYPE ") {
            let meaning = meanings.get(name).unwrap_or(&"");
            rows.push(format!("| `{name}` | {kind} | {meaning} |"));
        }
    }
    rows.sort();
    rows
}

fn after<'a>(line: &'a str, begin: &str) -> Option<(&'a str, &'a str)> {
    line.strip_prefix(begin)?.split_once(' ')
}

/// A page of metrics in the making.
#[derive(Debug, Default)]
pub struct Text {
    page: String,
}

/// Label names and values.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

impl Text {
    /// The page.
    #[must_use]
    pub fn finish(self) -> String {
        self.page
    }

    /// A number that only grows.
    pub fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, help, "counter");
        self.sample(name, &[], value as f64);
    }

    /// A number that is what it is now.
    pub fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.family(name, help, "gauge");
        self.sample(name, &[], value);
    }

    /// Always 1: which build this is.
    pub fn build_info(&mut self, name: &str, version: &str) {
        let help = "Always 1; the labels say which build this is.";
        self.family(name, help, "gauge");
        self.sample(name, &[("version", version)], 1.0);
    }

    /// Begins a family: what follows are its samples. `kind` is `counter`, `gauge` or `histogram`.
    pub fn family(&mut self, name: &str, help: &str, kind: &str) {
        debug_assert!(is_name(name), "{name} is no name of a metric");
        debug_assert!(!help.contains(['\n', '\\']), "{help:?} is not one line");
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    /// One number of a family.
    pub fn sample(&mut self, name: &str, labels: Labels<'_>, value: f64) {
        self.page.push_str(name);
        self.labels(labels, None);
        self.line(format_args!(" {value}"));
    }

    /// The samples of one histogram of a family.
    pub fn histogram(&mut self, name: &str, labels: Labels<'_>, histogram: &Histogram) {
        let Reading {
            buckets,
            count,
            sum,
        } = histogram.read();
        for (bound, below) in buckets {
            self.bucket(name, labels, format_args!("{bound}"), below);
        }
        self.end(name, labels, count, sum);
    }

    /// As [`Text::histogram`], of sizes in bytes.
    pub fn histogram_of_bytes(&mut self, name: &str, histogram: &Histogram) {
        let Reading {
            buckets,
            count,
            sum,
        } = histogram.read();
        // Whole bytes: they were counted as microseconds.
        let bytes = |seconds: f64| (seconds * 1e6).round();
        for (bound, below) in buckets {
            self.bucket(name, &[], format_args!("{}", bytes(bound)), below);
        }
        self.end(name, &[], count, bytes(sum));
    }

    fn end(&mut self, name: &str, labels: Labels<'_>, count: u64, sum: f64) {
        self.bucket(name, labels, format_args!("+Inf"), count);
        self.part(name, "_sum", labels, sum);
        self.part(name, "_count", labels, count as f64);
    }

    fn bucket(&mut self, name: &str, labels: Labels<'_>, bound: Arguments<'_>, below: u64) {
        self.page.push_str(name);
        self.page.push_str("_bucket");
        self.labels(labels, Some(bound));
        self.line(format_args!(" {below}"));
    }

    fn part(&mut self, name: &str, part: &str, labels: Labels<'_>, value: f64) {
        self.page.push_str(name);
        self.page.push_str(part);
        self.labels(labels, None);
        self.line(format_args!(" {value}"));
    }

    fn labels(&mut self, labels: Labels<'_>, bound: Option<Arguments<'_>>) {
        if labels.is_empty() && bound.is_none() {
            return;
        }
        let mut separator = '{';
        for (name, value) in labels {
            debug_assert!(is_name(name), "{name} is no name of a label");
            self.write(format_args!("{separator}{name}=\""));
            self.escaped(value);
            self.page.push('"');
            separator = ',';
        }
        if let Some(bound) = bound {
            self.write(format_args!("{separator}le=\"{bound}\""));
        }
        self.page.push('}');
    }

    fn escaped(&mut self, value: &str) {
        for character in value.chars() {
            match character {
                '\\' => self.page.push_str("\\\\"),
                '"' => self.page.push_str("\\\""),
                '\n' => self.page.push_str("\\n"),
                other => self.page.push(other),
            }
        }
    }

    fn line(&mut self, text: Arguments<'_>) {
        self.write(text);
        self.page.push('\n');
    }

    fn write(&mut self, text: Arguments<'_>) {
        // A string takes everything.
        let _ = self.page.write_fmt(text);
    }
}

fn is_name(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(letter) && name.chars().all(|c| letter(c) || c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_page_is_a_table_of_its_families_in_order() {
        let mut text = Text::default();
        text.counter("b_total", "Bees that were seen.", 3);
        text.gauge("a", "Ants now.", 1.0);
        let table = table_of(&text.finish());
        assert_eq!(
            table,
            [
                "| `a` | gauge | Ants now. |",
                "| `b_total` | counter | Bees that were seen. |"
            ]
        );
    }

    #[test]
    fn sizes_are_told_in_bytes() {
        let (mut text, histogram) = (Text::default(), Histogram::default());
        histogram.record_bytes(24);
        histogram.record_bytes(14 << 20);
        text.histogram_of_bytes("d_bytes", &histogram);
        let page = text.finish();
        for line in [
            "d_bytes_bucket{le=\"20\"} 0\n",
            "d_bytes_bucket{le=\"50\"} 1\n",
            "d_bytes_bucket{le=\"30000000\"} 2\n",
            "d_bytes_sum 14680088\n",
        ] {
            assert!(page.contains(line), "{line} in {page}");
        }
    }

    #[test]
    fn a_page_is_what_prometheus_reads() {
        let mut text = Text::default();
        text.counter("a_total", "How many.", 3);
        text.gauge("b", "How much.", 0.5);
        text.family("c_seconds", "How long.", "histogram");
        let histogram = Histogram::default();
        histogram.record(Duration::from_secs(1));
        text.histogram("c_seconds", &[("route", "/x")], &histogram);
        let page = text.finish();
        assert!(page.starts_with(
            "# HELP a_total How many.\n# TYPE a_total counter\na_total 3\n\
             # HELP b How much.\n# TYPE b gauge\nb 0.5\n\
             # HELP c_seconds How long.\n# TYPE c_seconds histogram\n\
             c_seconds_bucket{route=\"/x\",le=\"0.00001\"} 0\n"
        ));
        assert!(page.ends_with(
            "c_seconds_bucket{route=\"/x\",le=\"30\"} 1\n\
             c_seconds_bucket{route=\"/x\",le=\"+Inf\"} 1\n\
             c_seconds_sum{route=\"/x\"} 1\nc_seconds_count{route=\"/x\"} 1\n"
        ));
    }

    #[test]
    fn what_would_end_a_label_is_escaped() {
        let mut text = Text::default();
        text.sample("a", &[("why", "\"C:\\\"\nand more")], 1.0);
        let wanted = "a{why=\"\\\"C:\\\\\\\"\\nand more\"} 1\n";
        assert_eq!(text.finish(), wanted);
    }
}
