//! Who may call the API, in a condition.

use readstates_operator_api::conditions::{
    Condition,
    ConditionStatus::{False, True},
    ConditionType, Reason,
};

use super::Decided;
use crate::plan::Refused;

pub(super) fn api_open(decided: &Decided<'_>) -> Condition {
    let of =
        |status, reason, message| Condition::new(ConditionType::ApiOpen, status, reason, message);
    let cache = &decided.cluster.cache;
    let Some(access) = &cache.access else {
        let who = match &cache.clients {
            None => "every pod of this namespace",
            Some(_) => "every pod of spec.cache.clients",
        };
        let message = format!(
            "{who} may read, write and delete, and everybody where the network enforces no policies; name the callers \
             in spec.cache.access"
        );
        return of(True, Reason::NoAccessConfigured, message);
    };
    if let Some((reason, message)) = trouble(decided) {
        return of(False, reason, message);
    }
    let names: Vec<_> = access.callers.iter().map(|c| c.name.as_str()).collect();
    let message = match names[..] {
        [] => "every call is refused: spec.cache.access names no callers".to_owned(),
        _ => format!("callers: {}", names.join(", ")),
    };
    of(False, Reason::CallersOnly, message)
}

/// Callers that a person has to help in.
pub(super) fn trouble(decided: &Decided<'_>) -> Option<(Reason, String)> {
    let unbound = decided.done.unbound.iter();
    let unbound = unbound.map(|why| format!("no service account can be checked: {why}"));
    let refused = decided.plan.callers.refused.iter();
    let refused: Vec<_> = refused.map(Refused::to_string).chain(unbound).collect();
    (!refused.is_empty()).then(|| (Reason::CallerRefused, refused.join("; ")))
}
