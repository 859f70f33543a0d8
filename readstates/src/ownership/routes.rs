//! Who owns which slot, as a snapshot that every request looks at, and how each member is reached.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use http::HeaderValue;
use readstates_api::RingDocument;
use readstates_ring::{Incarnation, RingMember, RingTable, Slot};

use crate::limit::Limit;

const NOBODY: u16 = u16::MAX;

/// One member of the ring.
#[derive(Debug)]
pub struct Peer {
    pub name: String,
    pub incarnation: Incarnation,
    /// Where it answers, without a slash at the end.
    pub url: String,
    /// Requests under way to it.
    pub to: Limit,
    /// Requests from it.
    pub from: Limit,
    /// Set once it has said that it takes no frames of forwarded requests: it is of a release that has none.
    no_frames: AtomicBool,
}

impl Peer {
    pub(crate) fn new(member: &RingMember, most: usize) -> Self {
        Self {
            name: member.name().to_owned(),
            incarnation: member.incarnation(),
            url: member.url().trim_end_matches('/').to_owned(),
            to: Limit::new(most),
            from: Limit::new(most),
            no_frames: AtomicBool::new(false),
        }
    }

    /// Whether requests may be sent to it in frames, as far as is known.
    pub(crate) fn may_take_frames(&self) -> bool {
        !self.no_frames.load(Ordering::Relaxed)
    }

    /// It takes no frames.
    pub(crate) fn takes_no_frames(&self) {
        self.no_frames.store(true, Ordering::Relaxed);
    }
}

/// One state of the ring.
#[derive(Debug)]
pub struct Routes {
    table: Arc<RingTable>,
    peers: Vec<Arc<Peer>>,
    /// For each slot its owner's place in `peers`, or [`NOBODY`].
    owners: Box<[u16]>,
    /// The number, as every answer says it.
    header: HeaderValue,
    /// The ring as clients read it, once the first has asked.
    json: OnceLock<Bytes>,
}

impl Routes {
    /// Before the ring was read for the first time: no slot has an owner.
    pub(super) fn unknown() -> Self {
        Self::new(Arc::default(), None, 0)
    }

    /// The routes of a table. Members that were known before go on with their limits; others get
    /// limits of `most` requests.
    pub(super) fn new(table: Arc<RingTable>, before: Option<&Self>, most: usize) -> Self {
        let known = |member: &RingMember| {
            let peers = before.map_or(&[][..], |before| &before.peers);
            peers
                .iter()
                .find(|peer| peer.incarnation == member.incarnation() && peer.url == member.url())
                .cloned()
        };
        let peer = |member| known(member).unwrap_or_else(|| Arc::new(Peer::new(member, most)));
        Self {
            peers: table.members().iter().map(peer).collect(),
            owners: table
                .owners()
                .into_iter()
                .map(|owner| owner.unwrap_or(NOBODY))
                .collect(),
            header: HeaderValue::from(table.number()),
            json: OnceLock::new(),
            table,
        }
    }

    /// The number, as a header has it.
    pub(crate) fn header(&self) -> HeaderValue {
        self.header.clone()
    }

    #[must_use]
    pub fn table(&self) -> &Arc<RingTable> {
        &self.table
    }

    #[must_use]
    pub fn number(&self) -> u64 {
        self.table.number()
    }

    /// The members that own a slot.
    #[must_use]
    pub fn peers(&self) -> &[Arc<Peer>] {
        &self.peers
    }

    /// The owner of a slot: its place in [`Routes::peers`].
    #[must_use]
    pub fn owner(&self, slot: Slot) -> Option<usize> {
        let owner = self.owners[usize::from(slot.number())];
        (owner != NOBODY).then_some(usize::from(owner))
    }

    /// The ring as clients read it: a [`RingDocument`] as JSON, written once and shared by all callers.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn json(&self) -> serde_json::Result<Bytes> {
        if let Some(json) = self.json.get() {
            return Ok(json.clone());
        }
        let json = serde_json::to_vec(&RingDocument::from(&*self.table))?;
        // Callers that are first at the same time write the same.
        Ok(self.json.get_or_init(|| json.into()).clone())
    }
}
