//! The ring as it stands. In: the object of the API server. Out: a checked table, or why it is none.

use readstates_operator_api::ReadStateRing;
use readstates_ring::RingTable;

/// The ring of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RingSeen {
    /// There is none.
    #[default]
    Absent,
    /// It cannot be used, for this reason.
    Unreadable(String),
    /// There is one.
    Known(RingTable),
}

impl RingSeen {
    pub(crate) fn of(ring: Option<&ReadStateRing>) -> Self {
        let Some(ring) = ring else {
            return Self::Absent;
        };
        let json = serde_json::to_vec(&ring.spec).map_err(|error| error.to_string());
        let table =
            json.and_then(|json| RingTable::from_json(&json).map_err(|error| error.to_string()));
        table.map_or_else(Self::Unreadable, Self::Known)
    }

    /// The table, when there is one.
    #[must_use]
    pub fn table(&self) -> Option<&RingTable> {
        match self {
            Self::Known(table) => Some(table),
            Self::Absent | Self::Unreadable(_) => None,
        }
    }
}
