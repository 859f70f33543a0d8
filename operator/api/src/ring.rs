//! `ReadStateRing`: who owns which slot, at which epoch. The one object that ownership rests on.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

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
    validation = Rule::new("oldSelf.slots.all(slot, slot in self.slots)")
        .message("a slot never disappears: a slot that had an owner has one for ever")
        .field_path(".slots"),
    validation = Rule::new(
        "self.slots.all(slot, string(int(slot)) == slot && int(slot) >= 0 && int(slot) <= 1023)"
    ).message("the keys of slots are the numbers 0 to 1023").field_path(".slots"),
    validation = Rule::new("self.slots.all(slot, self.slots[slot].owner < size(self.members))")
        .message("owner is an index into members")
        .field_path(".slots"),
    validation = Rule::new(
        "self.slots.all(slot, !(slot in oldSelf.slots) || \
         self.slots[slot].epoch > oldSelf.slots[slot].epoch || \
         self.members[self.slots[slot].owner].incarnation == \
         oldSelf.members[oldSelf.slots[slot].owner].incarnation)"
    ).message("another owner needs a higher epoch").field_path(".slots")
)]
pub struct ReadStateRingSpec {
    /// Number of this ring. Every change has a higher one.
    #[schemars(range(min = 1))]
    pub number: i64,

    /// The processes that own slots. One that owns nothing any more is taken off.
    #[schemars(length(max = 1024))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["incarnation".to_owned()]))]
    pub members: Vec<RingMember>,

    /// The slots by number. One that nobody ever owned is absent.
    #[schemars(extend("maxProperties" = 1024))]
    pub slots: BTreeMap<String, RingSlot>,
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

/// One slot.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.epoch >= oldSelf.epoch")
        .message("an epoch never falls")
        .field_path(".epoch"),
    validation = Rule::new(
        "self.epoch > oldSelf.epoch || (has(self.inherits) == has(oldSelf.inherits) && \
         (!has(self.inherits) || self.inherits == oldSelf.inherits))"
    ).message("another inheritance needs a higher epoch").field_path(".inherits"),
    validation = Rule::new("!has(self.inherits) || self.inherits < self.epoch")
        .message("inherits names an epoch before this one")
        .field_path(".inherits")
)]
pub struct RingSlot {
    /// The ownership number; grows with every change of the owner.
    #[schemars(range(min = 0))]
    pub epoch: i64,

    /// The owner, as an index into `members`.
    #[schemars(range(min = 0, max = 1023))]
    pub owner: i32,

    /// The epoch whose sealed blocks the owner started with. Absent: it took over from a process that
    /// was gone, or was the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub inherits: Option<i64>,

    /// The member with a second copy, as an index into `members`. Absent: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1023))]
    pub backup: Option<i32>,
}
