//! `ReadStateRing`: who owns which slot, at which epoch. The one object that ownership rests on.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// Number of slots.
const SLOTS: usize = 1024;

/// Ownership of the 1024 slots of the `ReadStateCluster` of the same name. The operator creates it empty; from then on
/// only members write it, each time replacing exactly the version that they read. The number grows with every change;
/// safety rests on the epochs.
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
        .message("number must not decrease")
        .field_path(".number"),
    validation = Rule::new("self == oldSelf || self.number > oldSelf.number")
        .message("a change must increase the number")
        .field_path(".number"),
    validation = Rule::new("oldSelf.epochs.all(slot, epoch, self.epochs[slot] >= epoch)")
        .message("an epoch must not decrease")
        .field_path(".epochs"),
    validation = Rule::new(
        "self.owners.all(slot, owner, owner < 0 ? self.epochs[slot] == 0 : owner < size(self.members))"
    )
        .message("an owner is an index into members, or -1 if the slot was never owned")
        .field_path(".owners"),
    validation = Rule::new(
        "oldSelf.owners.all(slot, owner, owner < 0 || self.epochs[slot] > oldSelf.epochs[slot] || \
         self.members[self.owners[slot]].incarnation == oldSelf.members[owner].incarnation)"
    ).message("a change of owner must increase the epoch").field_path(".owners"),
    validation = Rule::new(
        "oldSelf.inherits.all(slot, from, oldSelf.owners[slot] < 0 || \
         self.epochs[slot] > oldSelf.epochs[slot] || self.inherits[slot] == from)"
    ).message("a change of inherits must increase the epoch").field_path(".inherits"),
    validation = Rule::new("self.inherits.all(slot, from, from < 0 || from < self.epochs[slot])")
        .message("a slot must inherit from an epoch before its own")
        .field_path(".inherits"),
    validation = Rule::new(
        "!has(self.backups) || self.backups.all(slot, backup, backup < 0 || \
         (self.owners[slot] >= 0 && backup < size(self.members) && backup != self.owners[slot]))"
    )
        .message("a backup is an index into members, other than the owner's, or -1 if the slot has none")
        .field_path(".backups"),
    validation = Rule::new(
        "(!has(self.backups) && !has(oldSelf.backups)) || \
         self.epochs.all(slot, epoch, epoch > oldSelf.epochs[slot] || \
         (has(self.backups) && self.backups[slot] >= 0 ? self.members[self.backups[slot]].incarnation : '') == \
         (has(oldSelf.backups) && oldSelf.backups[slot] >= 0 \
         ? oldSelf.members[oldSelf.backups[slot]].incarnation : ''))"
    ).message("a change of backup must increase the epoch").field_path(".backups"),
    validation = Rule::new("!has(self.backups) || (has(self.reader) && self.reader >= 2)")
        .message("a ring with backups must not be read by members that do not know them: reader must be at least 2")
        .field_path(".reader")
)]
pub struct ReadStateRingSpec {
    /// Number of this ring. Every change increases it.
    #[schemars(range(min = 1))]
    pub number: i64,

    /// The processes that own slots or back one. A process that no longer does is removed.
    #[schemars(length(max = 1024))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["incarnation".to_owned()]))]
    pub members: Vec<RingMember>,

    /// The epoch of each slot, which grows whenever its owner changes; 0 if the slot was never owned. Lists of numbers
    /// rather than a map of objects, because the API server takes 10 times as long to validate a map.
    #[schemars(length(equal = 1024), inner(range(min = 0)))]
    pub epochs: Vec<i64>,

    /// The owner of each slot: an index into `members`; -1 if the slot was never owned.
    #[schemars(length(equal = 1024), inner(range(min = -1, max = 1023)))]
    pub owners: Vec<i32>,

    /// The epoch whose sealed blocks each owner started with; -1 if it took over from a process that was gone, or was
    /// the first owner.
    #[schemars(length(equal = 1024), inner(range(min = -1)))]
    pub inherits: Vec<i64>,

    /// The backup of each slot, which has what its owner acknowledged and the database lacks: an index into `members`; -1
    /// if the slot has none. Absent if no slot has one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(equal = 1024), inner(range(min = -1, max = 1023)))]
    pub backups: Vec<i32>,

    /// The lowest version of this format that a process must know to read the ring; 1 if absent. A process that knows
    /// only lower ones changes nothing. Backups need 2.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schemars(range(min = 1))]
    pub reader: u32,

    /// Random bits, as 16 hexadecimal digits, that are drawn again whenever a process takes slots over, and stay the
    /// same when slots are handed on: a process that presents them has seen that takeover.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), regex(pattern = r"^[0-9a-f]{16}$"))]
    pub line: Option<String>,

    /// The lines before that one, latest first: a process that presents a line which is not listed has seen a ring that
    /// is not an ancestor of this one, for example after a restore.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 63),
        inner(length(max = 16), regex(pattern = r"^[0-9a-f]{16}$"))
    )]
    pub lines: Vec<String>,
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_one(reader: &u32) -> bool {
    *reader == 1
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
            backups: Vec::new(),
            reader: 1,
            line: None,
            lines: Vec::new(),
        }
    }
}

/// One process. A cache pod's name alone does not identify it, since two processes can have the same name.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct RingMember {
    /// Name of the member, which is the name of its pod.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,

    /// Identity of the process: 16 hexadecimal digits, drawn when it starts.
    #[schemars(length(max = 16), regex(pattern = r"^[0-9a-f]{16}$"))]
    pub incarnation: String,

    /// URL where other members and clients reach it.
    #[schemars(length(min = 1, max = 253))]
    pub url: String,

    /// Zone of the member, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub zone: Option<String>,
}
