//! What can be done next for the cache pods: one thing, or waiting.

use readstates_api::admin::MovesRequest;

use crate::plan::WaitingOn;

/// A pod to act on: this one, and no other of its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRef {
    pub name: String,
    pub uid: String,
    /// Its address, if it has one.
    pub ip: Option<String>,
    /// Whether its process speaks mutual TLS.
    pub mutual_tls: bool,
}

/// The one thing to ask of a member, or to do with its pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberAction {
    /// Ask a process to hand on what it owns.
    Drain {
        pod: PodRef,
        /// The process that is meant: another one in the same pod is left alone.
        incarnation: String,
    },
    /// Ask an owner to move slots.
    Move {
        pod: PodRef,
        /// The slots, and the member that they go to.
        request: MovesRequest,
    },
    /// Have a member keep another number of read states.
    Capacity { pod: PodRef, states: u64 },
    /// Have a pod get more memory while it runs.
    Grow {
        pod: PodRef,
        /// How much it is to have, in bytes.
        memory: u64,
    },
    /// Delete a pod that holds nothing; its StatefulSet makes another.
    Delete { pod: PodRef },
    /// Have the only pod write what it holds, and delete it when that succeeded.
    FlushAndDelete { pod: PodRef },
}

/// What the decision about the cache pods comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// One pod less: the highest ordinal holds nothing.
    Lower,
    /// This, and then wait.
    Do(MemberAction, WaitingOn),
    /// Only wait.
    Wait(WaitingOn),
    /// Everything is as wanted.
    Nothing,
}
