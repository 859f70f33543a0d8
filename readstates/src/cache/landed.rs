//! A cached user under the lock of its stripe.

use std::time::Instant;

use super::{
    Refused, Touch,
    accounts::Shared,
    stripe::Stripe,
    table::{Bucket, Hash},
};
use crate::block::{BlockRef, Operation, Outcome, Precondition};

/// The user, while no other task can reach it: see [`super::Cache::land`] and [`super::Cache::visit`].
#[derive(Debug)]
pub struct Landed<'a> {
    pub(super) stripe: &'a mut Stripe,
    pub(super) hash: Hash,
    pub(super) bucket: Bucket,
    pub(super) now: Instant,
    pub(super) shared: &'a Shared,
}

impl Landed<'_> {
    /// As [`super::Cache::read`].
    pub fn read<T>(&mut self, view: impl FnOnce(BlockRef<'_>) -> T) -> Option<T> {
        self.stripe.touch(self.bucket, Touch::Online);
        Some(view(self.stripe.block(self.bucket)))
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
            hash,
            bucket,
            now,
            shared,
        } = self;
        stripe.touch(*bucket, touch);
        let outcomes = stripe.apply(*hash, *bucket, operations, *now, shared);
        // What `apply` tidies does not move records.
        Some(outcomes.map(|outcomes| view(stripe.block(*bucket), outcomes.as_slice())))
    }

    /// As [`Landed::change`], if this holds of the block before it.
    pub fn change_if<T>(
        &mut self,
        precondition: Option<&Precondition>,
        operations: &[Operation],
        touch: Touch,
        view: impl FnOnce(BlockRef<'_>, &[Outcome]) -> T,
    ) -> Option<Result<T, Refused>> {
        if let Some(precondition) = precondition {
            // Of a slot that is served elsewhere by now the block here may be an old one.
            if self.shared.slots.term(self.hash).is_none() {
                return Some(Err(Refused::NotHere));
            }
            if !precondition.holds(self.stripe.block(self.bucket)) {
                return Some(Err(Refused::VersionMoved));
            }
        }
        self.change(operations, touch, view)
    }
}
