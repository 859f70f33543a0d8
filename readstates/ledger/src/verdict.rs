//! The result of a load: a table for a person, and whether anything was lost or doubled.

use std::{collections::BTreeMap, fmt, time::Duration};

use crate::{
    book::{Audit, Call, Finding, What},
    historian::Orders,
    load::Told,
    tally::{Errors, Phase},
    worker::Kind,
};

/// The quantiles of the table.
const QUANTILES: [(f64, &str); 4] = [(0.5, "p50"), (0.99, "p99"), (0.999, "p99.9"), (1.0, "max")];
/// How many findings are named one by one.
const NAMED: usize = 10;

/// A time in which operations that a member acknowledged may be lost: its last flush interval before it was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Excuse {
    /// From here, counted from the beginning of the load.
    pub from: Duration,
    /// To here.
    pub until: Duration,
}

/// The result of a load and its comparisons.
#[derive(Debug)]
pub struct Verdict {
    took: Duration,
    kinds: BTreeMap<Kind, u64>,
    latency: Vec<(Phase, u64, Vec<Duration>)>,
    errors: Errors,
    /// By place: what is there, what is excused, and what is not.
    places: Vec<(&'static str, Audit, Vec<Finding>, Vec<Finding>)>,
    orders: Orders,
}

impl Verdict {
    /// Brings together what a load was told and what was found in each place.
    #[must_use]
    pub fn new(told: &Told, audits: Vec<(&'static str, Audit)>, excuses: &[Excuse]) -> Self {
        let quantiles = QUANTILES.map(|(quantile, _)| quantile);
        let latency = Phase::ALL.map(|phase| {
            let (count, values) = told.tallies.latency(phase, &quantiles);
            (phase, count, values)
        });
        let excused = |finding: &Finding| {
            let may_be_lost = match finding.what {
                What::Lost | What::LostMeanwhile | What::NotSeen | What::ReadBehind => true,
                What::Doubled | What::Phantom | What::VersionWentBack => false,
            };
            // The member that was killed acknowledged it some time between question and answer.
            let in_time = |excuse: &Excuse| {
                finding.call.sent <= excuse.until && excuse.from <= finding.call.answered
            };
            may_be_lost && excuses.iter().any(in_time)
        };
        let places = audits.into_iter().map(|(place, audit)| {
            let (excused, wrong) = audit.findings.iter().copied().partition(excused);
            (place, audit, excused, wrong)
        });
        Self {
            took: told.took,
            kinds: told.kinds.clone(),
            latency: latency.into(),
            errors: told.tallies.errors(),
            places: places.collect(),
            orders: Orders::default(),
        }
    }

    /// The same, with the result for the histories of single users.
    #[must_use]
    pub fn with_orders(self, orders: Orders) -> Self {
        Self { orders, ..self }
    }

    /// Whether everything that was acknowledged is there, once, and all that was answered about single users has an order.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let places = &self.places;
        places.iter().all(|(_, _, _, wrong)| wrong.is_empty()) && self.orders.is_sound()
    }

    /// Operations that were acknowledged.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.places
            .iter()
            .map(|(_, audit, _, _)| audit.acknowledged)
            .max()
            .unwrap_or(0)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.took.as_secs();
        writeln!(
            f,
            "{} operations acknowledged in {seconds} s, workers {:?}",
            self.acknowledged(),
            self.kinds
        )?;
        write!(f, "{:<8} {:>9}", "phase", "calls")?;
        for (_, name) in QUANTILES {
            write!(f, " {name:>10}")?;
        }
        writeln!(f)?;
        for (phase, count, values) in &self.latency {
            write!(f, "{:<8} {count:>9}", format!("{phase:?}"))?;
            for value in values {
                write!(f, " {:>10}", format!("{value:.1?}"))?;
            }
            writeln!(f)?;
        }
        for ((phase, operation, why), count) in &self.errors {
            writeln!(f, "{phase:?}: {operation:?} failed {count} times: {why}")?;
        }
        for (place, audit, excused, wrong) in &self.places {
            writeln!(
                f,
                "{place}: {} acknowledged, {} of unknown outcome there and {} not, {} lost in the last flush \
                 interval of a member that was killed",
                audit.acknowledged,
                audit.unknown_and_there,
                audit.unknown_and_not,
                excused.len(),
            )?;
            counts(f, wrong)?;
        }
        orders(f, &self.orders)?;
        let word = if self.is_sound() { "SOUND" } else { "WRONG" };
        write!(f, "{word}")
    }
}

fn orders(f: &mut fmt::Formatter<'_>, orders: &Orders) -> fmt::Result {
    let Orders {
        linearizable,
        excused,
        undecided,
        impossible,
        answered,
    } = orders;
    writeln!(
        f,
        "histories: {answered} answers; of {linearizable} users they have an order, of {} none, of {undecided} it was not \
         found out, and of {excused} a member that was killed may have lost some",
        impossible.len()
    )?;
    for (user, (ordered, stuck)) in impossible.iter().take(NAMED) {
        writeln!(
            f,
            "    user {user}: {ordered} operations have an order, and none of these can be next: {stuck:?}"
        )?;
    }
    Ok(())
}

fn counts(f: &mut fmt::Formatter<'_>, wrong: &[Finding]) -> fmt::Result {
    let mut by_what: BTreeMap<What, usize> = BTreeMap::new();
    for finding in wrong {
        *by_what.entry(finding.what).or_default() += 1;
    }
    for what in [What::Lost, What::Doubled] {
        by_what.entry(what).or_default();
    }
    for (what, count) in by_what {
        writeln!(f, "    {what:?}: {count}")?;
    }
    for finding in wrong.iter().take(NAMED) {
        let Finding {
            user,
            channel,
            message,
            what,
            call: Call { sent, answered },
        } = finding;
        writeln!(
            f,
            "    {what:?}: user {user}, channel {channel}, message {message}, sent {sent:.1?} after the start, \
             answered {answered:.1?}"
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a loss is excused that the call from `sent` to `answered` had acknowledged; a member died at 30 s.
    fn is_excused(sent: u64, answered: u64, what: What) -> bool {
        let finding = Finding {
            user: 1,
            channel: 2,
            message: 3,
            what,
            call: Call {
                sent: Duration::from_secs(sent),
                answered: Duration::from_secs(answered),
            },
        };
        let audit = Audit {
            acknowledged: 1,
            findings: vec![finding],
            ..Audit::default()
        };
        let excuse = Excuse {
            from: Duration::from_secs(20),
            until: Duration::from_secs(30),
        };
        Verdict::new(&Told::default(), vec![("cache", audit)], &[excuse]).is_sound()
    }

    #[test]
    fn what_a_killed_member_can_have_acknowledged_last_may_be_lost_and_nothing_else() {
        assert!(is_excused(25, 26, What::Lost));
        // Other users of the same call were answered later, by others.
        assert!(is_excused(29, 41, What::Lost));
        assert!(is_excused(12, 21, What::NotSeen));
        // Written by then, or acknowledged by a member that lives.
        assert!(!is_excused(12, 19, What::Lost));
        assert!(!is_excused(31, 41, What::Lost));
        assert!(!is_excused(25, 26, What::Doubled));
    }
}
