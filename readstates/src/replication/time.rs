//! The clock of permissions and silence.

use std::{fmt, sync::Arc, time::Duration};

/// The time since a moment that stays the same. It must go on while the machine sleeps: a permission that was given
/// before ends meanwhile.
#[derive(Clone)]
pub(crate) struct Time(Arc<dyn Fn() -> Duration + Send + Sync>);

impl Time {
    pub(crate) fn new(read: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    pub(super) fn now(&self) -> Duration {
        (self.0)()
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Time").field(&self.now()).finish()
    }
}
