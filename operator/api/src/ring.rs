//! `ReadStateRing`: who owns which slot, at which epoch. The one object that ownership rests on.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// How many slots there are.
const SLOTS: usize = 1024;

/// Who owns which of the 1024 slots of the `ReadStateCluster` of the same name. Made empty by the
/// operator and then written by the members alone, each time by a replace of exactly what was read. The
/// number grows with every change; what is safe to do rests on the epochs.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[allow(
    clippy::duplicated_attributes,
    reason = "two columns may have one type: the lint takes the lists for one"
)]
#[kube(
    group = "readstates.dev",
    version = "v1alpha1",
    kind = "ReadStateRing",
    plural = "readstaterings",
    shortname = "rsr",
    category = "readstates",
    namespaced,
    derive = "PartialEq",
    doc = "Who owns which slot of the ReadStateCluster of the same name. Written by the cache pods; \
           never edit it.",
    printcolumn(
        name = "Number",
        type_ = "integer",
        json_path = ".spec.number",
        description = "Number of this ring; it grows with every change."
    ),
    printcolumn(
        name = "Changed",
        type_ = "date",
        json_path = ".metadata.managedFields[?(@.operation==\"Update\")].time",
        description = "When a slot last changed its owner or epoch. Empty: no member has written yet."
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.number >= oldSelf.number")
        .message("number only grows")
        .field_path(".number"),
    validation = Rule::new("self == oldSelf || self.number > oldSelf.number")
        .message("a change needs a higher number")
        .field_path(".number"),
    validation = Rule::new("oldSelf.epochs.all(slot, epoch, self.epochs[slot] >= epoch)")
        .message("an epoch never falls")
        .field_path(".epochs"),
    validation = Rule::new(
        "self.owners.all(slot, owner, owner < 0 ? self.epochs[slot] == 0 : owner < size(self.members))"
    )
        .message("an owner is an index into members, or -1 where nobody ever owned the slot")
        .field_path(".owners"),
    validation = Rule::new(
        "oldSelf.owners.all(slot, owner, owner < 0 || self.epochs[slot] > oldSelf.epochs[slot] || \
         self.members[self.owners[slot]].incarnation == oldSelf.members[owner].incarnation)"
    ).message("another owner needs a higher epoch").field_path(".owners"),
    validation = Rule::new(
        "oldSelf.inherits.all(slot, from, oldSelf.owners[slot] < 0 || \
         self.epochs[slot] > oldSelf.epochs[slot] || self.inherits[slot] == from)"
    ).message("another inheritance needs a higher epoch").field_path(".inherits"),
    validation = Rule::new("self.inherits.all(slot, from, from < 0 || from < self.epochs[slot])")
        .message("a slot inherits from an epoch before its own")
        .field_path(".inherits")
)]
pub struct ReadStateRingSpec {
    /// Number of this ring. Every change has a higher one.
    #[schemars(range(min = 1))]
    pub number: i64,

    /// The processes that own slots. One that owns nothing any more is taken off.
    #[schemars(length(max = 1024))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["incarnation".to_owned()]))]
    pub members: Vec<RingMember>,

    /// The epoch of each slot, which grows with every change of its owner; 0 where nobody ever owned it.
    /// Lists of numbers and no map of objects: of those, the API server takes 10 times as long to take a
    /// ring.
    #[schemars(length(equal = 1024), inner(range(min = 0)))]
    pub epochs: Vec<i64>,

    /// The owner of each slot: an index into `members`; -1 where nobody ever owned it.
    #[schemars(length(equal = 1024), inner(range(min = -1, max = 1023)))]
    pub owners: Vec<i32>,

    /// The epoch whose sealed blocks each owner started with; -1 where it took over from a process that
    /// was gone, or was the first.
    #[schemars(length(equal = 1024), inner(range(min = -1)))]
    pub inherits: Vec<i64>,

    /// Random bits, as 16 hexadecimal digits, that are drawn anew whenever a process takes slots, and stay when slots are
    /// handed on: whoever says them has seen what was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), regex(pattern = r"^[0-9a-f]{16}$"))]
    pub line: Option<String>,

    /// The lines before that one, the latest first: whoever says another one has seen a ring that this one does not follow
    /// from, as after a restore.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 63),
        inner(length(max = 16), regex(pattern = r"^[0-9a-f]{16}$"))
    )]
    pub lines: Vec<String>,
}

impl ReadStateRingSpec {
    /// A ring without owners.
    #[must_use]
    pub fn empty(number: i64) -> Self {
        Self {
            number,
            members: Vec::new(),
            epochs: vec![0; SLOTS],
            owners: vec![-1; SLOTS],
            inherits: vec![-1; SLOTS],
            line: None,
            lines: Vec::new(),
        }
    }
}

/// One process: a cache pod's name alone is none, since two processes can have it.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct RingMember {
    /// Name of the member, which is its pod's.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,

    /// The process: 16 hexadecimal digits, drawn at its start.
    #[schemars(length(max = 16), regex(pattern = r"^[0-9a-f]{16}$"))]
    pub incarnation: String,

    /// Where other members and clients reach it.
    #[schemars(length(min = 1, max = 253))]
    pub url: String,

    /// Zone the member is in, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub zone: Option<String>,
}
