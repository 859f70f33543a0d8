//! Names of the headers that are our own.

use std::time::Duration;

/// On every response: the number of the ring the member works by.
pub const RING: &str = "x-readstates-ring";

/// On a request, with the value `1`: the client chose the owner itself; answer 421 instead of
/// forwarding when it chose wrong.
pub const DIRECT: &str = "x-readstates-direct";

/// On a request: for how many milliseconds its sender waits for the answer, 1 to [`MAX_TIMEOUT`]. A
/// member that passes the request on sends what is left of them; no work is done on it after that.
pub const TIMEOUT: &str = "x-readstates-timeout";

/// The longest that a request can say it waits.
pub const MAX_TIMEOUT: Duration = Duration::from_mins(10);

/// On a message about slots from one member to another: the process that it is meant for, 16
/// hexadecimal digits.
pub const INCARNATION: &str = "x-readstates-incarnation";

/// On a request from one member to another: the name of the member that forwards it. A forwarded
/// request is never forwarded again.
pub const FORWARDED: &str = "x-readstates-forwarded";

/// On a request: its id, to be found again in logs and problems. Up to 128 of letters, digits and `-_.:/+=~@`; another
/// one is not taken, and a member makes one where there is something to look up. Answers carry it.
pub const REQUEST_ID: &str = "x-request-id";
