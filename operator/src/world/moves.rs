//! A move that has taken a cluster's table elsewhere.

/// The move that has handed a cluster's table over to another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandedOver {
    /// The `ReadStateMigration`.
    pub migration: String,
    /// The cluster that has the table now.
    pub to: String,
}
