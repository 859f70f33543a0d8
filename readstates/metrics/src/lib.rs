//! Counters, gauges and histograms, and the page that Prometheus reads: the one place that writes its text format.
//!
//! In: numbers, kept in place by many threads, in memory that never grows. Out: text. It knows none of the metrics: the
//! service, the operator, its agents and the super-disk bring names, meanings and labels.

mod histogram;
mod text;

pub use self::{
    histogram::{Counter, Gauge, Histogram},
    text::{Labels, Text, table_of},
};
