//! Requests, by operation and by the status of their answer.

use std::time::Duration;

use http::StatusCode;
use readstates_metrics::{Counter, Histogram, Text};

use crate::operation::{Class, Operation};

/// The statuses that the service answers with; the last stands for any other.
const STATUSES: [(u16, &str); 21] = [
    (200, "200"),
    (202, "202"),
    (204, "204"),
    (304, "304"),
    (400, "400"),
    (401, "401"),
    (403, "403"),
    (404, "404"),
    (405, "405"),
    (409, "409"),
    (412, "412"),
    (413, "413"),
    (415, "415"),
    (421, "421"),
    (429, "429"),
    (431, "431"),
    (500, "500"),
    (502, "502"),
    (503, "503"),
    (504, "504"),
    (0, "other"),
];

/// The requests for one operation.
#[derive(Debug, Default)]
pub(super) struct Requests {
    seconds: Histogram,
    /// By status.
    answered: [Counter; STATUSES.len()],
}

impl Requests {
    pub(super) fn answered(&self, status: StatusCode, took: Duration) {
        self.seconds.record(took);
        let place = STATUSES
            .iter()
            .position(|&(number, _)| number == status.as_u16());
        self.answered[place.unwrap_or(STATUSES.len() - 1)].increment(1);
    }
}

/// Of an operation about users these are there from the start, beside its success: what alerts are about.
const FROM_THE_START: [&str; 4] = ["429", "500", "503", "504"];

/// Whether it is about users: what is measured of those is there before the first of them.
fn about_users(operation: Operation) -> bool {
    match operation.class() {
        Class::Reads | Class::Changes | Class::Batches | Class::Mentions => true,
        Class::RingWaiters | Class::Open => false,
    }
}

/// Whether a counter is shown that counts nothing yet. Most of them never count anything.
fn from_the_start(operation: Operation, status: &str) -> bool {
    let success = match operation {
        Operation::DeleteUser => "204",
        _ => "200",
    };
    about_users(operation) && (status == success || FROM_THE_START.contains(&status))
}

pub(super) fn write(text: &mut Text, requests: &[Requests]) {
    let name = "readstates_request_seconds";
    let help = "Time from a request's head to its answer.";
    text.family(name, help, "histogram");
    // The other routes are polled by machines; their latency is not an objective.
    let users = |(operation, _): &(&Operation, _)| about_users(**operation);
    for (operation, requests) in Operation::ALL.iter().zip(requests).filter(users) {
        let labels = [("route", operation.route()), ("method", operation.method())];
        text.histogram(name, &labels, &requests.seconds);
    }
    let name = "readstates_requests_total";
    text.family(name, "Requests answered, by status.", "counter");
    for (operation, requests) in Operation::ALL.iter().zip(requests) {
        for (&(_, status), counter) in STATUSES.iter().zip(&requests.answered) {
            let labels = [
                ("route", operation.route()),
                ("method", operation.method()),
                ("status", status),
            ];
            if counter.get() > 0 || from_the_start(*operation, status) {
                text.sample(name, &labels, counter.get() as f64);
            }
        }
    }
}
