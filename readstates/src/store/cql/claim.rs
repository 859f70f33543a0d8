//! Whose a keyspace is. Two clusters that write one keyspace lose each other's changes, so the one that uses it
//! claims it: `readstates schema` puts its row into a table beside the blocks, and members look at it every minute.
//!
//! A claim is taken by writing first and looking then. Of two that claim at once at least one sees the other,
//! because a write reaches a quorum of every data centre before the look that follows it; the one that sees another
//! withdraws, and only one that saw none marks its row as proven:
//! ```text
//! look ─┬─ mine is proven ──────────────────────────────────────▶ ours
//!       ├─ another is there and may not be taken over ──────────▶ refused
//!       └─▶ write mine ─▶ remove what may be taken over ─▶ look ─┬─ mine alone ─▶ prove it ─▶ ours
//!                                                                └─ others ─▶ withdraw mine ─▶ refused
//! ```
//! Not a lightweight transaction: ScyllaDB up to 2025.3 has none in keyspaces with tablets, its default.

use std::{fmt, str::FromStr};

use super::SchemaError;

/// Who claims a keyspace: a name that no other cluster has. Kubernetes: the UID of the `ReadStateCluster`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimName(String);

impl ClaimName {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ClaimName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if (1..=64).contains(&text.len()) && text.bytes().all(allowed) {
            return Ok(Self(text.to_owned()));
        }
        Err(format!(
            "{text:?} is no name of a claim: use 1 to 64 of a-z A-Z 0-9 . _ -"
        ))
    }
}

impl fmt::Display for ClaimName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How a keyspace is claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub name: ClaimName,
    /// What a person who finds the claim would look for.
    pub holder: String,
    /// Whose claim may be taken over.
    pub take_over: TakeOver,
}

/// Whose claim may be taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakeOver {
    Never,
    /// The claim of this name, which a person has given.
    From(ClaimName),
    /// Any claim: the database itself is the claimant's.
    Anybody,
}

impl TakeOver {
    fn allows(&self, owner: &str) -> bool {
        match self {
            Self::Never => false,
            Self::From(name) => name.as_str() == owner,
            Self::Anybody => true,
        }
    }
}

/// A row of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) owner: String,
    pub(super) holder: String,
    /// When it was written, in RFC 3339.
    pub(super) since: String,
    /// Whether its owner has seen that it is alone.
    pub(super) proven: bool,
    /// The timestamp of its latest write: a removal needs a later one.
    pub(super) written: i64,
}

impl Row {
    fn others(&self) -> Other {
        let Self {
            owner,
            holder,
            since,
            proven: _,
            written: _,
        } = self;
        Other {
            owner: owner.clone(),
            holder: holder.clone(),
            since: since.clone(),
        }
    }
}

/// The claim of another cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Other {
    /// The name of the claim.
    pub owner: String,
    /// What it says of itself.
    pub holder: String,
    /// Since when, in RFC 3339.
    pub since: String,
}

impl fmt::Display for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, since {})", self.owner, self.holder, self.since)
    }
}

/// Who has the keyspace, judged by the rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sight {
    /// The keyspace is this cluster's.
    Ours,
    /// Not claimed: a database of the release before, on which this release has not applied its schema yet.
    Nobodys,
    Others(Other),
}

/// Judges the rows for a member of `me`; `None`: for one that was given no claim.
pub(super) fn judge(rows: &[Row], me: Option<&ClaimName>) -> Sight {
    let mine = |row: &&Row| me.is_some_and(|me| row.owner == me.as_str());
    let others = || rows.iter().filter(|row| !mine(row));
    // Claims never leave two proven rows: a person has edited them, and neither is believed.
    if let Some(other) = others().find(|row| row.proven) {
        return Sight::Others(other.others());
    }
    match rows.iter().find(mine) {
        Some(_) => Sight::Ours,
        // One that is being taken, or was given up half-way: not this member's either way.
        None => others()
            .next()
            .map_or(Sight::Nobodys, |other| Sight::Others(other.others())),
    }
}

/// The rows of one keyspace. A write is in a quorum of every data centre when it is done, a read is from a quorum.
pub(super) trait Rows {
    async fn read(&self) -> Result<Vec<Row>, SchemaError>;
    async fn write(&self, claim: &Claim) -> Result<(), SchemaError>;
    async fn prove(&self, name: &ClaimName) -> Result<(), SchemaError>;
    async fn remove(&self, owner: &str, written: i64) -> Result<(), SchemaError>;
}

/// How the claim was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Taken {
    /// This cluster had it already.
    Held,
    /// The keyspace was not claimed.
    New,
    /// Taken over from these.
    Over(Vec<Other>),
}

/// Takes the keyspace, or finds that it has it.
pub(super) async fn take(
    rows: &impl Rows,
    keyspace: &str,
    claim: &Claim,
) -> Result<Taken, SchemaError> {
    let mine = |row: &&Row| row.owner == claim.name.as_str();
    let seen = rows.read().await?;
    let (own, others): (Vec<_>, Vec<_>) = seen.iter().partition(mine);
    if own.iter().any(|row| row.proven) && !others.iter().any(|row| row.proven) {
        return Ok(Taken::Held);
    }
    let refused = |row: &Row| SchemaError::Claimed {
        keyspace: keyspace.to_owned(),
        by: row.others(),
    };
    if let Some(other) = others.iter().find(|r| !claim.take_over.allows(&r.owner)) {
        return Err(refused(other));
    }
    rows.write(claim).await?;
    for other in &others {
        rows.remove(&other.owner, other.written).await?;
    }
    let seen = rows.read().await?;
    let (own, left): (Vec<_>, Vec<_>) = seen.iter().partition(mine);
    match (own.first(), left.first()) {
        (Some(_), None) => {
            rows.prove(&claim.name).await?;
            Ok(match others.as_slice() {
                [] => Taken::New,
                others => Taken::Over(others.iter().map(|row| row.others()).collect()),
            })
        }
        (own, Some(other)) => {
            if let Some(own) = own {
                rows.remove(&own.owner, own.written).await?;
            }
            Err(SchemaError::ClaimContended {
                keyspace: keyspace.to_owned(),
                by: other.others(),
            })
        }
        (None, None) => Err(SchemaError::ClaimUnseen {
            keyspace: keyspace.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests;
