//! The journal of one slot: what its owner has acknowledged and the database may lack.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use crate::{
    Epoch, Incarnation,
    fence::VERSION_GAP,
    mutant::{self, Shortcut},
};

/// One change of one user.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Change<O> {
    /// The user's version before.
    pub before: u64,
    /// And after.
    pub version: u64,
    /// What was done. Operations are pure: done to the same block, they give the same block.
    pub operation: O,
}

/// What a slot's owner has acknowledged and the database may lack, by user.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Journal<O, B> {
    of: Incarnation,
    /// It begins with what this member itself sealed at this epoch and handed to the owner.
    sealed: Option<Epoch>,
    complete: bool,
    users: BTreeMap<u64, OfUser<O, B>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct OfUser<O, B> {
    image: Option<(u64, B)>,
    /// Most users have one: it takes no memory of its own.
    changes: SmallVec<[Change<O>; 1]>,
}

/// A change does not follow from the block that it should be applied to. The user is not complete: what it lacks is
/// lost, and said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "user {user}: a change to version {version} follows version {before}, and the block is at {found}"
)]
pub struct Mismatch {
    /// Whose.
    pub user: u64,
    /// The version that the change would make.
    pub version: u64,
    /// The version that it follows.
    pub before: u64,
    /// The version of the block, or what the operation made of it.
    pub found: u64,
}

/// Whether a version is later than another. Those of a later owner have jumped above those of the
/// owner before: see [`crate::fence::next_version`].
fn is_later(version: u64, than: u64) -> bool {
    if mutant::takes(Shortcut::ComparesWithoutEpoch) {
        return version % VERSION_GAP > than % VERSION_GAP;
    }
    version > than
}

impl<O, B> Journal<O, B> {
    /// One that is seeded by this owner, and has nothing yet.
    pub(super) fn seeded_by(of: Incarnation) -> Self {
        Self {
            of,
            sealed: None,
            complete: false,
            users: BTreeMap::new(),
        }
    }

    /// What this member sealed at an epoch and handed to this owner: the blocks that the database may lack.
    pub(super) fn handed_to(
        of: Incarnation,
        sealed: Epoch,
        dirty: impl IntoIterator<Item = (u64, u64, B)>,
    ) -> Self {
        let mut journal = Self {
            sealed: Some(sealed),
            complete: true,
            ..Self::seeded_by(of)
        };
        for (user, version, block) in dirty {
            journal.image(user, version, block);
        }
        journal
    }

    /// The owner whose stream it is.
    #[must_use]
    pub fn of(&self) -> Incarnation {
        self.of
    }

    /// Whether it has everything that its owner may have acknowledged by it: seeded to the end, or handed over sealed.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    pub(super) fn seeded(&mut self) {
        self.complete = true;
    }

    pub(super) fn continues(&self, of: Incarnation, sealed: Epoch) -> bool {
        (self.of, self.sealed) == (of, Some(sealed))
    }

    /// Whether nothing is left that the database may lack.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// The users that it has something of, for a promoted owner to load.
    pub fn users(&self) -> impl Iterator<Item = u64> + '_ {
        self.users.keys().copied()
    }

    pub(super) fn append(&mut self, user: u64, change: Change<O>) {
        self.of_user(user).changes.push(change);
    }

    /// What stood before is part of it.
    pub(super) fn image(&mut self, user: u64, version: u64, block: B) {
        *self.of_user(user) = OfUser {
            image: Some((version, block)),
            changes: SmallVec::new(),
        };
    }

    fn of_user(&mut self, user: u64) -> &mut OfUser<O, B> {
        self.users.entry(user).or_insert_with(|| OfUser {
            image: None,
            changes: SmallVec::new(),
        })
    }

    /// The database has a user at this version.
    pub fn trim(&mut self, user: u64, written: u64) {
        let Some(of_user) = self.users.get_mut(&user) else {
            return;
        };
        let stays = |version: u64| is_later(version, written);
        of_user.image = of_user.image.take().filter(|(version, _)| stays(*version));
        of_user.changes.retain(|change| stays(change.version));
        if of_user.image.is_none() && of_user.changes.is_empty() {
            self.users.remove(&user);
        }
    }

    /// What a user's block is, when the database has it as `loaded` with this version: the later of that and the image,
    /// and all changes above. `None` if the database lacks nothing. `open` makes of an image what `loaded` is, and `apply`
    /// does an operation to that at the version before; it returns the version that results.
    ///
    /// # Errors
    /// When a change does not follow from what is there: what that user lacks is lost.
    pub fn replay<W>(
        &self,
        user: u64,
        (mut version, mut block): (u64, W),
        open: impl Fn(&B) -> W,
        apply: impl Fn(&mut W, &Change<O>) -> u64,
    ) -> Result<Option<(u64, W)>, Mismatch> {
        let Some(of_user) = self.users.get(&user) else {
            return Ok(None);
        };
        let replays_all = mutant::takes(Shortcut::ReplaysAll);
        let mut is_news = false;
        if let Some((of_image, image)) = &of_user.image
            && is_later(*of_image, version)
        {
            (version, block, is_news) = (*of_image, open(image), true);
        }
        for change in &of_user.changes {
            if !is_later(change.version, version) && !replays_all {
                continue;
            }
            let mismatch = |found| Mismatch {
                user,
                version: change.version,
                before: change.before,
                found,
            };
            if change.before != version && !replays_all {
                return Err(mismatch(version));
            }
            version = apply(&mut block, change);
            if version != change.version {
                return Err(mismatch(version));
            }
            is_news = true;
        }
        Ok(is_news.then_some((version, block)))
    }
}
