//! `ReadStateRing`: which members there are, in which order, under which number.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// The member table of one `ReadStateCluster`, of the same name. Written by the operator, read by
/// whoever wants to know which pod owns a user: hash, slot and jump order over these members in
/// this order name the owner. The number only grows, and every table has its own.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[kube(
    group = "readstates.dev",
    version = "v1alpha1",
    kind = "ReadStateRing",
    plural = "readstaterings",
    shortname = "rsr",
    category = "readstates",
    namespaced,
    derive = "PartialEq",
    doc = "The member table of the ReadStateCluster of the same name. Written by the operator; the \
           number only grows.",
    printcolumn(
        name = "Number",
        type_ = "integer",
        json_path = ".spec.number",
        description = "Number of this table; a higher one is newer."
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
    validation = Rule::new("self.members == oldSelf.members || self.number > oldSelf.number")
        .message("other members need a higher number")
        .field_path(".members")
)]
pub struct ReadStateRingSpec {
    /// Number of this table. A higher one is newer.
    #[schemars(range(min = 1))]
    pub number: i64,

    /// The members, in the order that decides who owns what.
    #[schemars(length(min = 1, max = 64))]
    pub members: Vec<RingMember>,
}

/// One cache pod.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct RingMember {
    /// Name of the pod.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,

    /// Where other members and clients reach it.
    #[schemars(length(min = 1, max = 253))]
    pub url: String,

    /// Zone the member is in, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub zone: Option<String>,
}
