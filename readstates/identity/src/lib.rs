//! Mutual TLS between the processes of one cluster: members, operator and database agents.
//!
//! ```text
//! Authority ──issue(role)──▶ Pems (ca.crt, tls.crt, tls.key) ──▶ Identity ──▶ Acceptor        server side
//!                                     ▲ files, read again                └──▶ client_config   client side
//! ```
//!
//! Each cluster has a certificate authority (CA) of its own. A certificate names one process role of one
//! cluster in its only DNS name: `member.chat.talk.readstates.internal`. Both ends of a connection check
//! the chain to a CA that they trust, the cluster and the role; a host name or an address proves
//! nothing. TLS 1.3 only, without session resumption: every connection is checked against the CAs that
//! are trusted now.
//!
//! Several CAs may be trusted at once, so that one can take the place of another without a pause. No key
//! is ever logged or shown.

#![warn(missing_docs)]

mod authority;
mod certificate;
mod identity;
mod name;
mod pems;
mod verify;

pub use authority::{Authority, NotIssued};
pub use certificate::{Details, Mark, Unreadable, details};
pub use identity::{AcceptError, Acceptor, Identity, IdentityError};
pub use name::{BadName, ClusterName, Role};
pub use pems::{CA_FILE, CERTIFICATE_FILE, KEY_FILE, Pems, PemsError};

#[cfg(test)]
mod tests;
