//! How far the traffic between the nodes of the database is encrypted: each stage of a change, told once.

use kube::runtime::events::{Event, EventType};
use readstates_operator_api::{InternodeTls, ReadStateClusterStatus, conditions::Reason};

use super::{Decided, event::event};
use crate::spec::Store;

/// The one before, while records stay as they are; none where the operator runs no database that speaks TLS.
pub(super) fn stage(
    decided: &Decided<'_>,
    before: Option<&ReadStateClusterStatus>,
) -> Option<InternodeTls> {
    if decided.keeps_records() {
        return before.and_then(|before| before.database_internode_tls);
    }
    match &decided.cluster.store {
        Store::Managed(database) => database.tls.as_ref().map(|_| database.internode),
        Store::External(_) | Store::Embedded(_) => None,
    }
}

/// An event when a stage begins.
pub(super) fn news(
    before: Option<&ReadStateClusterStatus>,
    after: &ReadStateClusterStatus,
) -> Option<Event> {
    let was = before?.database_internode_tls?;
    let now = after.database_internode_tls?;
    if was == now {
        return None;
    }
    let kind = match now {
        InternodeTls::Disabled => "connect in plain text and accept nothing else",
        InternodeTls::Accepted => "connect in plain text and accept TLS, too",
        InternodeTls::Preferred => "connect over TLS and accept plain text, too",
        InternodeTls::Required => "connect over TLS and accept nothing else",
    };
    Some(event(
        EventType::Normal,
        Reason::InternodeTlsChanging.as_str(),
        "Encrypt",
        &format!("database nodes are restarted one by one, to {kind}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stage_is_one_event() {
        let at = |stage| ReadStateClusterStatus {
            database_internode_tls: Some(stage),
            ..ReadStateClusterStatus::default()
        };
        let statuses = [
            at(InternodeTls::Disabled),
            at(InternodeTls::Disabled),
            at(InternodeTls::Accepted),
            at(InternodeTls::Preferred),
            at(InternodeTls::Required),
        ];
        let told: Vec<_> = statuses
            .windows(2)
            .filter_map(|pair| news(Some(&pair[0]), &pair[1]))
            .map(|event| format!("{}: {}", event.reason, event.note.unwrap_or_default()))
            .collect();
        let begins = "InternodeTlsChanging: database nodes are restarted one by one, to connect";
        assert_eq!(
            told,
            [
                format!("{begins} in plain text and accept TLS, too"),
                format!("{begins} over TLS and accept plain text, too"),
                format!("{begins} over TLS and accept nothing else"),
            ]
        );
        assert!(news(None, &statuses[2]).is_none());
    }
}
