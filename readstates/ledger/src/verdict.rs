//! The result of a load: a table for a person, and whether anything was lost or doubled.

use std::{collections::BTreeMap, fmt, time::Duration};

use crate::{
    book::{Audit, Call, Finding, What},
    excuse::Excuse,
    load::Told,
    orders::Orders,
    tally::{Errors, Phase},
    worker::Kind,
};

/// The quantiles of the table.
const QUANTILES: [(f64, &str); 4] = [(0.5, "p50"), (0.99, "p99"), (0.999, "p99.9"), (1.0, "max")];
/// How many findings are named one by one.
const NAMED: usize = 10;

/// So many operations are to be acknowledged in each second of a load, and so many answers about single users are to have an
/// order: where all is well it is ten times as many and more.
const LEAST_A_SECOND: u64 = 1;

/// What a load and its comparisons come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// Everything that was acknowledged is there, once, and all that was answered about single users has an order.
    Sound,
    /// Something is not as it should be.
    Wrong,
    /// Nothing wrong was found, and too little was done to say more.
    TooLittle,
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sound => "SOUND",
            Self::Wrong => "WRONG",
            Self::TooLittle => "TOO LITTLE",
        })
    }
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
    /// Of the histories of single users, where some were written.
    orders: Option<Orders>,
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
            let Call { sent, answered } = finding.call;
            may_be_lost && excuses.iter().any(|excuse| excuse.covers(sent, answered))
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
            orders: None,
        }
    }

    /// The same, with the result for the histories of single users.
    #[must_use]
    pub fn with_orders(self, orders: Orders) -> Self {
        let orders = Some(orders);
        Self { orders, ..self }
    }

    /// What all of it comes to.
    #[must_use]
    pub fn word(&self) -> Word {
        let mut places = self.places.iter();
        let is_wrong = places.any(|(_, _, _, wrong)| !wrong.is_empty());
        if is_wrong || self.orders.as_ref().is_some_and(Orders::are_wrong) {
            return Word::Wrong;
        }
        match self.lack().is_empty() {
            true => Word::Sound,
            false => Word::TooLittle,
        }
    }

    /// Whether everything is as it should be, and was enough to mean something.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.word() == Word::Sound
    }

    /// Why it was too little to mean anything.
    fn lack(&self) -> Vec<String> {
        let least = (self.took.as_secs() * LEAST_A_SECOND).max(1);
        let acknowledged = self.acknowledged();
        let mut lack = Vec::new();
        if acknowledged < least {
            lack.push(format!(
                "{acknowledged} operations were acknowledged, {least} at least were to be"
            ));
        }
        lack.extend(self.orders.iter().flat_map(|orders| orders.lack(least)));
        lack
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
        if let Some(of_users) = &self.orders {
            orders(f, of_users)?;
        }
        for lack in self.lack() {
            writeln!(f, "too little: {lack}")?;
        }
        write!(f, "{}", self.word())
    }
}

fn orders(f: &mut fmt::Formatter<'_>, orders: &Orders) -> fmt::Result {
    let Orders {
        linearizable,
        excused,
        undecided,
        impossible,
        answered,
        ordered,
    } = orders;
    writeln!(
        f,
        "histories: {ordered} of {answered} answers have an order; of {linearizable} users all have, of {excused} if a member \
         that was killed has lost some, of {undecided} it was not found out, and of {} they have none",
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
    fn a_load_that_did_next_to_nothing_is_not_sound_and_says_so() {
        let verdict = |acknowledged, ordered| {
            let told = Told {
                took: Duration::from_secs(600),
                ..Told::default()
            };
            let audit = Audit {
                acknowledged,
                ..Audit::default()
            };
            let orders = Orders {
                ordered,
                linearizable: 1,
                ..Orders::default()
            };
            Verdict::new(&told, vec![("cache", audit)], &[]).with_orders(orders)
        };
        assert_eq!(verdict(600, 600).word(), Word::Sound);
        for little in [verdict(599, 600), verdict(600, 599), verdict(0, 0)] {
            assert_eq!(little.word(), Word::TooLittle);
            let text = little.to_string();
            assert!(
                text.contains("too little: ") && text.ends_with("TOO LITTLE"),
                "{text}"
            );
        }
        let nothing = Verdict::new(&Told::default(), Vec::new(), &[]);
        assert_eq!(nothing.word(), Word::TooLittle);
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
