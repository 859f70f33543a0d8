//! The line of a ring: 64 random bits that tell whether a process has seen a take.
//!
//! A ring keeps the last lines that it has been on ([`MOST_LINES`]). A process that says a line that a ring has never
//! been on has seen a take that the ring has forgotten.
//!
//! Every swap in which a process names *itself* draws a new line; one that hands slots on keeps the line. A table that
//! bears a line therefore follows, by swaps alone, from the one that drew it. A process that last read a table with
//! that line has seen what was taken with it, even if the store was restored in between: an earlier table does not bear
//! the line. The number of a table proves no such thing.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Incarnation, config::NoIncarnation};

/// The most lines that a table keeps, its own and those before it: more than the number of times that members take
/// slots while a dead one is remembered.
pub const MOST_LINES: usize = 64;

/// Which takes a table has seen. Sixteen hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Line(u64);

impl Line {
    /// The line of a table for which none was drawn, and of a process that has read no table.
    pub const NONE: Self = Self(0);

    /// The line with these bits, which are random.
    #[must_use]
    pub fn new(bits: u64) -> Self {
        Self(bits)
    }

    /// The bits.
    #[must_use]
    pub fn bits(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl TryFrom<String> for Line {
    type Error = NoIncarnation;

    fn try_from(text: String) -> Result<Self, NoIncarnation> {
        Incarnation::try_from(text).map(|bits| Self(bits.bits()))
    }
}

impl From<Line> for String {
    fn from(line: Line) -> Self {
        line.to_string()
    }
}
