//! Turns: an operator looks, decides and writes as far as it gets, and the world moves on; and what must never be
//! then.

use readstates_agent::wire::{Disk, NodeState};
use readstates_operator_api::{DatabaseNode, DatabaseNodeState};

use super::Sim;
use crate::plan::{NodesStep, Order, Plan};

/// What an operator has decided to do, by what it saw then.
#[derive(Clone)]
pub(crate) struct Decided {
    pub(super) plan: Plan,
    /// The schema Job that it makes, where those are played.
    pub(super) job: Option<(String, i32)>,
    pub(super) by: u32,
}

impl Decided {
    /// How many writes and orders that is.
    pub(crate) fn writes(&self) -> usize {
        let step = &self.plan.database;
        let deletions = step.pods_to_delete.len() + step.claims_to_delete.len();
        let [identities, status] = [1, 1];
        let jobs = self.plan.jobs_to_delete.len() + usize::from(self.job.is_some());
        jobs + deletions + step.orders.len() + identities + self.plan.racks.len() + status
    }
}

impl Sim {
    /// Turns until nothing has changed for a while.
    pub(crate) fn run(&mut self) {
        self.run_by(|sim| sim.turn(usize::MAX));
    }

    /// Such turns until nothing has changed for a while.
    pub(crate) fn run_by(&mut self, turn: impl Fn(&mut Self)) {
        const A_WHILE: u32 = 6;
        let mut still = 0;
        for _ in 0..150 {
            let before = self.fingerprint();
            turn(self);
            still = if self.fingerprint() == before {
                still + 1
            } else {
                0
            };
            if still == A_WHILE {
                return;
            }
        }
        panic!("it never comes to rest: {:?}", self.log);
    }

    /// Everything but the time.
    fn fingerprint(&self) -> String {
        let sets: Vec<_> = self
            .racks
            .values()
            .map(|s| (s.replicas, s.partition, s.revision()))
            .collect();
        let pods: Vec<_> = self
            .pods
            .values()
            .map(|p| (&p.uid, &p.decommission, &p.cleanup, &p.repair, &p.upgrade))
            .collect();
        format!(
            "{sets:?} {pods:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
            self.ring,
            self.records,
            self.upgrade,
            self.replication,
            self.jobs,
            self.has_schema,
            self.log.len()
        )
    }

    /// The operator looks, decides and writes, and dies after `writes` writes; then the world moves on.
    pub(crate) fn turn(&mut self, writes: usize) {
        let decided = self.decide();
        self.check(&decided.plan.database);
        self.carry_out(decided, writes);
        self.move_on();
    }

    /// Operators that die before their first, second, … write follow each other until one lives to the end; then
    /// the world moves on.
    pub(crate) fn deadly_turn(&mut self) {
        for writes in 0.. {
            let decided = self.decide();
            self.check(&decided.plan.database);
            let lives = writes >= decided.writes();
            self.carry_out(decided, writes);
            if lives {
                break;
            }
        }
        self.move_on();
    }

    /// Whether everything is as it should be and nothing goes on.
    pub(crate) fn rests(&self) -> bool {
        let mut next = self.clone();
        next.turn(usize::MAX);
        next.fingerprint() == self.fingerprint()
    }

    pub(crate) fn decide(&self) -> Decided {
        let plan = self.plan();
        let makes = self.keyspace.is_some() && plan.schema_job;
        Decided {
            job: makes.then(|| self.wanted_job()),
            plan,
            by: self.recorded,
        }
    }

    /// Invariants that hold wherever an earlier turn was cut off.
    fn check(&self, step: &NodesStep) {
        let on_its_way = |r: &&DatabaseNode| !r.is_member() && r.state != DatabaseNodeState::Left;
        assert!(
            step.records.iter().filter(on_its_way).count() <= 1,
            "{:?}",
            step.records
        );
        let moves = |order: &&Order| match order {
            Order::Start { pod, .. } => !matches!(self.disk(&pod.name), Disk::Known { .. }),
            Order::Decommission { .. } => true,
            Order::Cleanup { .. } | Order::Repair { .. } | Order::Upgrade { .. } => false,
        };
        let moves: Vec<_> = step.orders.iter().filter(moves).collect();
        assert!(moves.len() <= 1, "{moves:?}");
        let told = |order: &&Order| matches!(order, Order::Repair { .. });
        let repaired = step.orders.iter().filter(told).count();
        let repairing = self.pods.values().filter(|p| p.repairs()).count();
        assert!(
            repaired == 0 || (moves.is_empty() && repairing == 0),
            "{:?}",
            step.orders
        );
        assert!(
            repairing == 0 || moves.is_empty(),
            "{moves:?} while {repairing} are being repaired"
        );
        let moving = self
            .ring
            .iter()
            .filter(|n| n.state != NodeState::Normal)
            .count();
        assert!(moving <= 1, "{:?}", self.ring);
        // A cluster created again starts with all of them down, which the operator cannot help.
        let down = self.ring.iter().filter(|n| !n.up).count();
        assert!(
            down <= self.may_be_down || self.records.is_empty(),
            "{:?}",
            self.ring
        );
    }
}
