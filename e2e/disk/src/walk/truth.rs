//! What must be on a volume: every file that was acknowledged, unless a person gave it up or its only copy was destroyed.

/// One batch of files that was acknowledged.
#[derive(Clone, Debug)]
struct Acknowledged<F> {
    files: F,
    /// Written while the network disk was away: the local disks have the only copy.
    on_fast_only: bool,
}

/// Of one volume; `F` is what is known of a batch of files.
#[derive(Clone, Debug)]
pub(super) struct Truth<F> {
    acknowledged: Vec<Acknowledged<F>>,
    /// The network disk has missed writes, or may have.
    is_split: bool,
    /// Something that held an only copy was damaged since.
    is_damaged: bool,
    /// Batches that a person gave up.
    pub(super) given_up: usize,
    /// Batches whose only copy was destroyed.
    pub(super) destroyed: usize,
}

impl<F> Default for Truth<F> {
    fn default() -> Self {
        Self {
            acknowledged: Vec::new(),
            is_split: false,
            is_damaged: false,
            given_up: 0,
            destroyed: 0,
        }
    }
}

impl<F> Truth<F> {
    /// Files were written and synced.
    pub(super) fn wrote(&mut self, files: F) {
        self.acknowledged.push(Acknowledged {
            files,
            on_fast_only: self.is_split,
        });
    }

    /// The network disk failed while the volume was mounted.
    pub(super) fn split(&mut self) {
        self.is_split = true;
    }

    /// Whether the local disks may have what the network disk has not.
    pub(super) fn is_split(&self) -> bool {
        self.is_split
    }

    /// Whether local disks that may hold an only copy were damaged.
    pub(super) fn is_damaged(&self) -> bool {
        self.is_split && self.is_damaged
    }

    /// A local disk has lost content, or all of it.
    pub(super) fn local_damaged(&mut self) {
        self.is_damaged |= self.is_split;
    }

    /// A person has kept the network disk's content.
    pub(super) fn kept_durable(&mut self) {
        let before = self.acknowledged.len();
        self.acknowledged.retain(|it| !it.on_fast_only);
        self.given_up += before - self.acknowledged.len();
        self.both_have_it();
    }

    /// Both components have everything.
    fn both_have_it(&mut self) {
        (self.is_split, self.is_damaged) = (false, false);
        for it in &mut self.acknowledged {
            it.on_fast_only = false;
        }
    }

    /// The files that must be there.
    pub(super) fn must_be_there(&self) -> impl Iterator<Item = &F> {
        let excused = |it: &&Acknowledged<F>| !(it.on_fast_only && self.is_damaged);
        self.acknowledged.iter().filter(excused).map(|it| &it.files)
    }

    /// The volume was assembled, or resolved, and what must be there is: what was on damaged disks alone is no longer asked for, and
    /// from now on the network disk has everything.
    pub(super) fn is_served(&mut self) {
        if self.is_damaged() {
            let before = self.acknowledged.len();
            self.acknowledged.retain(|it| !it.on_fast_only);
            self.destroyed += before - self.acknowledged.len();
        }
        self.both_have_it();
    }
}

#[cfg(test)]
mod tests {
    use super::Truth;

    fn there(truth: &Truth<&'static str>) -> Vec<&'static str> {
        truth.must_be_there().copied().collect()
    }

    fn split() -> Truth<&'static str> {
        let mut truth = Truth::default();
        truth.wrote("before");
        truth.split();
        truth.wrote("after");
        truth
    }

    #[test]
    fn what_was_acknowledged_must_be_there_whatever_was_damaged_while_both_components_had_it() {
        let mut truth = Truth::default();
        truth.wrote("a");
        truth.local_damaged();
        assert_eq!(there(&truth), ["a"]);
        truth.kept_durable();
        assert_eq!((there(&truth), truth.given_up), (vec!["a"], 0));
    }

    #[test]
    fn an_only_copy_is_excused_by_damage_or_by_a_persons_word_alone() {
        let mut truth = split();
        assert_eq!(there(&truth), ["before", "after"]);
        truth.local_damaged();
        assert_eq!(there(&truth), ["before"]);
        truth.is_served();
        assert_eq!((there(&truth), truth.destroyed), (vec!["before"], 1));
        let mut truth = split();
        truth.kept_durable();
        assert_eq!((there(&truth), truth.given_up), (vec!["before"], 1));
    }

    #[test]
    fn once_both_have_it_damage_excuses_nothing() {
        let mut truth = split();
        truth.is_served();
        truth.local_damaged();
        assert_eq!(there(&truth), ["before", "after"]);
        assert!(!truth.is_split());
    }
}
