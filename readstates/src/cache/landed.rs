//! A user who has just landed, while nobody else can reach it.

use std::time::Instant;

use super::{Refused, Shared, Touch, change_in, stripe::Stripe};
use crate::block::{BlockRef, Operation, Outcome};

/// The user, under the lock of its stripe: see [`super::Cache::land`].
#[derive(Debug)]
pub struct Landed<'a> {
    stripe: &'a mut Stripe,
    user: u64,
    now: Instant,
    shared: &'a Shared,
}

impl<'a> Landed<'a> {
    pub(super) fn new(stripe: &'a mut Stripe, user: u64, now: Instant, shared: &'a Shared) -> Self {
        Self {
            stripe,
            user,
            now,
            shared,
        }
    }

    /// As [`super::Cache::read`].
    pub fn read<T>(&mut self, view: impl FnOnce(BlockRef<'_>) -> T) -> Option<T> {
        let entry = self.stripe.get_mut(self.user)?;
        entry.touch(Touch::Online);
        Some(view(entry.block()))
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
            now,
            shared,
        } = self;
        change_in(stripe, *user, operations, touch, *now, shared, view)
    }
}
