//! Prometheus' text format.

use std::fmt::Write;

use super::Histogram;

/// A page of metrics in the making.
#[derive(Debug, Default)]
pub struct Text {
    page: String,
}

/// Label names and values. Values are our own words or names of members: nothing to escape.
pub(crate) type Labels<'a> = &'a [(&'a str, &'a str)];

impl Text {
    /// The page.
    #[must_use]
    pub fn finish(self) -> String {
        self.page
    }

    /// A number that only grows.
    pub(crate) fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, help, "counter");
        self.sample(name, &[], value as f64);
    }

    /// A number that is what it is now.
    pub(crate) fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.family(name, help, "gauge");
        self.sample(name, &[], value);
    }

    /// Begins a family: what follows are its samples.
    pub(crate) fn family(&mut self, name: &str, help: &str, kind: &str) {
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    /// One number of a family.
    pub(crate) fn sample(&mut self, name: &str, labels: Labels<'_>, value: f64) {
        self.page.push_str(name);
        self.labels(labels, None);
        self.line(format_args!(" {value}"));
    }

    /// The samples of one histogram of a family.
    pub(crate) fn histogram(&mut self, name: &str, labels: Labels<'_>, histogram: &Histogram) {
        self.histogram_in(1.0, name, labels, histogram);
    }

    /// As [`Text::histogram`], of sizes in bytes.
    pub(crate) fn histogram_of_bytes(&mut self, name: &str, histogram: &Histogram) {
        self.histogram_in(1e6, name, &[], histogram);
    }

    /// `unit` is what a second stands for.
    fn histogram_in(&mut self, unit: f64, name: &str, labels: Labels<'_>, histogram: &Histogram) {
        let (buckets, count, sum) = histogram.read();
        // Rounded to what a bound is: whole microseconds, or whole bytes.
        let in_unit = |seconds: f64| (seconds * 1e6).round() / (1e6 / unit);
        let sum = if unit > 1.0 { in_unit(sum) } else { sum };
        for (bound, below) in buckets {
            let bound = if unit > 1.0 { in_unit(bound) } else { bound };
            self.bucket(name, labels, format_args!("{bound}"), below);
        }
        self.bucket(name, labels, format_args!("+Inf"), count);
        self.part(name, "_sum", labels, sum);
        self.part(name, "_count", labels, count as f64);
    }

    fn bucket(
        &mut self,
        name: &str,
        labels: Labels<'_>,
        bound: std::fmt::Arguments<'_>,
        below: u64,
    ) {
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

    fn labels(&mut self, labels: Labels<'_>, bound: Option<std::fmt::Arguments<'_>>) {
        if labels.is_empty() && bound.is_none() {
            return;
        }
        let mut separator = '{';
        for (name, value) in labels {
            self.write(format_args!("{separator}{name}=\"{value}\""));
            separator = ',';
        }
        if let Some(bound) = bound {
            self.write(format_args!("{separator}le=\"{bound}\""));
        }
        self.page.push('}');
    }

    fn line(&mut self, text: std::fmt::Arguments<'_>) {
        self.write(text);
        self.page.push('\n');
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        // A string takes everything.
        let _ = self.page.write_fmt(text);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn sizes_are_told_in_bytes() {
        let (mut text, histogram) = (Text::default(), Histogram::default());
        histogram.record_bytes(24);
        histogram.record_bytes(14 << 20);
        text.histogram_of_bytes("d_bytes", &histogram);
        let page = text.finish();
        for line in [
            "d_bytes_bucket{le=\"24\"} 0\n",
            "d_bytes_bucket{le=\"28\"} 1\n",
            "d_bytes_bucket{le=\"33554432\"} 2\n",
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
             c_seconds_bucket{route=\"/x\",le=\"0.000001\"} 0\n"
        ));
        assert!(page.ends_with(
            "c_seconds_bucket{route=\"/x\",le=\"33.554432\"} 1\n\
             c_seconds_bucket{route=\"/x\",le=\"+Inf\"} 1\n\
             c_seconds_sum{route=\"/x\"} 1\nc_seconds_count{route=\"/x\"} 1\n"
        ));
    }
}
