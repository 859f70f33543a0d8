//! A move of a table as values.

use readstates_operator_api::MembersMeanwhile;

/// A move that can be carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidatedMigration {
    pub members: MembersMeanwhile,
    /// The claim with the file that says how far it is.
    pub checkpoints: String,
    pub merge: bool,
    pub rate: Option<i32>,
    pub parallel: Option<i32>,
    pub suspend: bool,
}
