//! Names of the headers that are our own.

/// On every response: the number of the ring the member works by.
pub const RING: &str = "x-readstates-ring";

/// On a request, with the value `1`: the client chose the owner itself; answer 421 instead of
/// forwarding when it chose wrong.
pub const DIRECT: &str = "x-readstates-direct";

/// On a message about slots from one member to another: the process that it is meant for, 16
/// hexadecimal digits.
pub const INCARNATION: &str = "x-readstates-incarnation";

/// On a request from one member to another: the name of the member that forwards it. A forwarded
/// request is never forwarded again.
pub const FORWARDED: &str = "x-readstates-forwarded";
