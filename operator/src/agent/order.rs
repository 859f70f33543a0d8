//! Who may give orders: whoever has the token that the operator made for this cluster, and only to the
//! pod that is named.

use std::path::Path;

use axum::http::{HeaderMap, StatusCode, header};

/// Why an order is not carried out.
pub(super) type Refusal = (StatusCode, String);

/// Whether the order may be given to this pod.
///
/// # Errors
/// The refusal.
pub(super) fn check(
    headers: &HeaderMap,
    token: &Path,
    meant: &str,
    own: &str,
) -> Result<(), Refusal> {
    let token = std::fs::read(token)
        .map_err(|error| refuse(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    let given = headers
        .get(header::AUTHORIZATION)
        .and_then(|v| v.as_bytes().strip_prefix(b"Bearer "));
    if token.is_empty() || !given.is_some_and(|g| same(g, &token)) {
        return Err(refuse(StatusCode::UNAUTHORIZED, "an order needs the token"));
    }
    if meant != own {
        let words = format!("the order is for the pod with UID {meant}, this one has {own}");
        return Err(refuse(StatusCode::CONFLICT, words));
    }
    Ok(())
}

pub(super) fn refuse(status: StatusCode, words: impl Into<String>) -> Refusal {
    (status, words.into())
}

/// Compares in a time that tells nothing of where they differ.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |all, (x, y)| all | (x ^ y)) == 0
}
