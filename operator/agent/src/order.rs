//! Checks of an order: only the operator, which has proven its identity by then, may give it; and only the pod that it
//! names obeys.

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
