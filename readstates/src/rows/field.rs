//! The parts of a read state, as flags and patterns name them.

use strum::{EnumCount, IntoStaticStr};

/// A part of a read state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumCount, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Field {
    User,
    Channel,
    Message,
    Mentions,
    Counted,
    Flags,
    Viewed,
    Pin,
}

/// How many there are.
pub(crate) const FIELDS: usize = Field::COUNT;

impl Field {
    pub(crate) const ALL: [Self; FIELDS] = [
        Self::User,
        Self::Channel,
        Self::Message,
        Self::Mentions,
        Self::Counted,
        Self::Flags,
        Self::Viewed,
        Self::Pin,
    ];

    pub(crate) fn place(self) -> usize {
        self as usize
    }

    /// As flags and patterns name it.
    pub(crate) fn key(self) -> &'static str {
        self.into()
    }

    pub(crate) fn of_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.key() == key)
    }

    /// The column that `readstates export` writes.
    pub(super) fn exported_as(self) -> &'static str {
        match self {
            Self::User => "user_id",
            Self::Channel => "channel_id",
            Self::Message => "last_message_id",
            Self::Mentions => "mention_count",
            Self::Counted => "counted_through",
            Self::Flags => "flags",
            Self::Viewed => "last_viewed",
            Self::Pin => "last_pin_timestamp",
        }
    }

    pub(super) fn is_required(self) -> bool {
        matches!(self, Self::User | Self::Channel | Self::Message)
    }
}
