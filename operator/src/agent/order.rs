//! Who may give orders: the operator, which has proven what it is before it is heard; and only to the pod that is
//! named.

use axum::http::StatusCode;

/// Why an order is not carried out.
pub(super) type Refusal = (StatusCode, String);

/// Whether the order is for this pod.
///
/// # Errors
/// The refusal.
pub(super) fn check(meant: &str, own: &str) -> Result<(), Refusal> {
    if meant != own {
        let words = format!("the order is for the pod with UID {meant}, this one has {own}");
        return Err(refuse(StatusCode::CONFLICT, words));
    }
    Ok(())
}

pub(super) fn refuse(status: StatusCode, words: impl Into<String>) -> Refusal {
    (status, words.into())
}
