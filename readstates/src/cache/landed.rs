//! A cached user under the lock of its stripe.

use std::time::Instant;

use super::{Refused, Touch, accounts::Shared, stripe::Stripe, table::Spot};
use crate::block::{BlockRef, Operation, Outcome};

/// The user, while nobody else can reach it: see [`super::Cache::land`] and [`super::Cache::visit`].
#[derive(Debug)]
pub struct Landed<'a> {
    pub(super) stripe: &'a mut Stripe,
    pub(super) user: u64,
    pub(super) spot: Spot,
    pub(super) now: Instant,
    pub(super) shared: &'a Shared,
}

impl Landed<'_> {
    /// As [`super::Cache::read`].
    pub fn read<T>(&mut self, view: impl FnOnce(BlockRef<'_>) -> T) -> Option<T> {
        self.stripe.touch(self.spot, Touch::Online);
        Some(view(self.stripe.block(self.spot)))
    }

    /// As [`super::Cache::change`].
    pub fn change<T>(
        &mut self,
        operations: &[Operation],
        touch: Touch,
        view: impl FnOnce(BlockRef<'_>, &[Outcome]) -> T,
    ) -> Option<Result<T, Refused>> {
        let Self {
            stripe,
            user,
            spot,
            now,
            shared,
        } = self;
        stripe.touch(*spot, touch);
        let outcomes = stripe.apply(*user, *spot, operations, *now, shared);
        // What `apply` tidies does not move records.
        Some(outcomes.map(|outcomes| view(stripe.block(*spot), outcomes.as_slice())))
    }
}
