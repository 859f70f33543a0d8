//! The snapshots that a node has been told of, so that an order of long ago, from an operator that was held up, neither
//! brings back one that was removed nor removes a later one. In: each step that begins. Out: whether it may. Pure.
//!
//! It is kept in memory: an agent that has restarted follows such an order. One snapshot more than needed then stays until
//! the next upgrade.

use std::collections::VecDeque;

use crate::wire::UpgradeStep;

/// Snapshots that are remembered as over: an order that is older than so many upgrades has long been given up.
const MOST: usize = 16;

/// What a node remembers.
#[derive(Clone, Debug, Default)]
pub struct Snapshots {
    /// The one that was to be taken last, until one is to be removed.
    current: Option<String>,
    /// Those that were to be removed, the last at the end.
    over: VecDeque<String>,
}

impl Snapshots {
    /// Notes a step that begins.
    ///
    /// # Errors
    /// Why it must not begin, in words.
    pub fn begin(&mut self, step: &UpgradeStep) -> Result<(), String> {
        match step {
            UpgradeStep::Rewrite => {}
            UpgradeStep::Snapshot(name) if self.over.contains(name) => {
                return Err(format!(
                    "the snapshot {name} was removed before, since its upgrade has ended"
                ));
            }
            // Nothing is over by that: after a restart of the agent, this may be the old order.
            UpgradeStep::Snapshot(name) => self.current = Some(name.clone()),
            UpgradeStep::Release(name) => match &self.current {
                Some(current) if current != name && self.over.contains(name) => {
                    return Err(format!(
                        "the snapshot {name} was removed before, and that of a later upgrade, {current}, must stay"
                    ));
                }
                Some(_) | None => {
                    self.current = None;
                    self.end(name);
                }
            },
        }
        Ok(())
    }

    fn end(&mut self, name: &String) {
        if self.over.contains(name) {
            return;
        }
        self.over.push_back(name.clone());
        if self.over.len() > MOST {
            self.over.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(name: &str) -> UpgradeStep {
        UpgradeStep::Snapshot(name.to_owned())
    }

    fn remove(name: &str) -> UpgradeStep {
        UpgradeStep::Release(name.to_owned())
    }

    #[test]
    fn an_order_of_long_ago_brings_no_snapshot_back_and_removes_no_later_one() {
        let mut node = Snapshots::default();
        // A step that failed is told again.
        for step in [
            take("1"),
            take("1"),
            UpgradeStep::Rewrite,
            remove("1"),
            remove("1"),
        ] {
            assert_eq!(node.begin(&step), Ok(()), "{step:?}");
        }
        assert!(node.begin(&take("1")).is_err());
        assert_eq!(node.begin(&take("2")), Ok(()));
        let refused = node.begin(&remove("1")).unwrap_err();
        assert!(refused.contains("later upgrade, 2, must stay"), "{refused}");
        assert!(node.begin(&take("1")).is_err());
        assert_eq!(node.begin(&remove("2")), Ok(()));
    }

    #[test]
    fn an_agent_that_has_restarted_removes_what_it_is_told_to() {
        let mut node = Snapshots::default();
        assert_eq!(node.begin(&remove("1")), Ok(()));
        assert!(node.begin(&take("1")).is_err());
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut node = Snapshots::default();
        for number in 0..100 {
            node.begin(&remove(&number.to_string())).unwrap();
        }
        assert_eq!(node.over.len(), MOST);
        assert!(node.begin(&take("98")).is_err());
    }

    #[test]
    fn an_old_order_after_a_restart_of_the_agent_keeps_no_upgrade_from_its_end() {
        let mut node = Snapshots::default();
        for step in [take("2"), take("1"), take("2"), remove("2")] {
            assert_eq!(node.begin(&step), Ok(()), "{step:?}");
        }
        let mut node = Snapshots::default();
        for step in [take("2"), take("1"), remove("2"), remove("2")] {
            assert_eq!(node.begin(&step), Ok(()), "{step:?}");
        }
    }
}
