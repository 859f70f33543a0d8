use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::*;
use crate::{
    fixtures::{self, super_disk},
    plan::{
        Plan,
        database::sim::{Sim, two_and_two},
        plan,
    },
    super_disk::{Condition, Facts, Mirror, SuperDiskSeen, Sync, WaitingOn},
    world::World,
};

/// Two racks of two nodes on volumes of 1Ti, and a spec that says 2Ti.
struct Grown {
    sim: Sim,
    world: World,
}

impl Grown {
    fn new() -> Self {
        Self::of(&two_and_two())
    }

    fn of(spec: &str) -> Self {
        let mut sim = Sim::up(spec);
        let mut world = sim.world();
        for claim in world.nodes.claims.values_mut() {
            claim.size = size("1Ti", "1Ti");
        }
        sim.cluster = fixtures::cluster(&spec.replace("1Ti", "2Ti"));
        Self { sim, world }
    }

    /// The same, on super-disks whose local disks hold 2Ti.
    fn on_super_disks() -> Self {
        let disk = "  superDisk: { localDevices: [/dev/nvme0n1] }\n";
        let mut grown = Self::of(&(two_and_two() + disk));
        for set in grown.world.racks.values_mut() {
            set.claim_size = Some(Quantity("1Ti".to_owned()));
        }
        for pod in ALL {
            grown.disk(pod, Condition::Healthy, TIB);
        }
        grown
    }

    /// How a super-disk is, with a mirror of this size.
    fn disk(&mut self, pod: &str, condition: Condition, bytes: u64) {
        let mut seen = super_disk(condition);
        if let SuperDiskSeen::Answered(answer) = &mut seen {
            let sync = Sync {
                progress: None,
                kib_per_second: 0,
            };
            answer.facts = Some(Facts {
                mirror: Some(Mirror { bytes, sync }),
            });
        }
        self.world.super_disks.insert(pod.to_owned(), seen);
    }

    fn waits(&self) -> Option<String> {
        let sight = Sight::of(&self.sim.cluster, &self.world, self.sim.clock).unwrap();
        grow(&sight, &mut NodesStep::default()).map(|wait| wait.to_string())
    }

    fn claim(&mut self, pod: &str, requested: &str, capacity: &str) {
        let claims = &mut self.world.nodes.claims;
        claims.get_mut(&format!("data-{pod}")).unwrap().size = size(requested, capacity);
    }

    fn plan(&self) -> Plan {
        plan(&self.sim.cluster, &self.world, self.sim.clock)
    }

    /// The pods whose volumes ask for more.
    fn asks(&self) -> Vec<String> {
        let claims = self.plan().database.claims_to_grow;
        let pods = claims.iter().map(|growth| {
            assert_eq!(growth.size, "2Ti");
            growth.claim.name.strip_prefix("data-").unwrap().to_owned()
        });
        pods.collect()
    }
}

fn size(requested: &str, capacity: &str) -> ClaimSize {
    ClaimSize {
        requested: Some(requested.to_owned()),
        capacity: Some(capacity.to_owned()),
        words: None,
    }
}

const TIB: u64 = 1 << 40;
const ALL: [&str; 4] = ["chat-db-a-0", "chat-db-a-1", "chat-db-b-0", "chat-db-b-1"];

#[test]
fn every_volume_asks_for_more_and_no_pod_changes() {
    let mut grown = Grown::new();
    assert_eq!(grown.asks(), ALL);
    let (before, after) = (grown.sim.plan(), grown.plan());
    assert_eq!(after.racks, before.racks);
    let waiting = after.waiting.unwrap();
    assert_eq!(waiting.reason().as_str(), "SchemaPending");
    grown.claim("chat-db-a-0", "2Ti", "1Ti");
    assert_eq!(grown.asks(), ALL[1..]);
    for pod in ALL {
        grown.claim(pod, "2048Gi", "2Ti");
    }
    assert_eq!(grown.asks(), [""; 0]);
}

#[test]
fn what_grows_is_told_with_the_drivers_words_and_holds_up_nothing() {
    let mut grown = Grown::new();
    for pod in ALL {
        grown.claim(pod, "2Ti", "2Ti");
    }
    assert_eq!(grown.waits(), None);
    grown.claim("chat-db-b-0", "2Ti", "1Ti");
    let claim = grown
        .world
        .nodes
        .claims
        .get_mut("data-chat-db-b-0")
        .unwrap();
    claim.size.words = Some("waiting for the node".to_owned());
    assert_eq!(
        grown.waits().unwrap(),
        "the volume of data-chat-db-b-0 grows to 2Ti: waiting for the node"
    );
    grown.claim("chat-db-b-1", "1Ti", "1Ti");
    assert_eq!(
        grown.waits().unwrap(),
        "the volume of data-chat-db-b-0 grows to 2Ti: waiting for the node; one more grows or has yet to"
    );
}

#[test]
fn volumes_that_are_larger_or_unknown_or_of_nodes_that_have_left_stay_as_they_are() {
    let mut grown = Grown::new();
    grown.claim("chat-db-a-0", "3Ti", "3Ti");
    grown
        .world
        .nodes
        .claims
        .get_mut("data-chat-db-a-1")
        .unwrap()
        .bound = false;
    grown
        .world
        .nodes
        .claims
        .get_mut("data-chat-db-b-0")
        .unwrap()
        .size = ClaimSize::default();
    let mut records = grown.world.records.iter_mut();
    let record = records.find(|r| r.name == "chat-db-b-1").unwrap();
    record.state = DatabaseNodeState::Left;
    assert_eq!(grown.asks(), [""; 0]);
}

#[test]
fn volumes_grow_while_a_node_is_away() {
    let mut grown = Grown::new();
    grown
        .world
        .database_pods
        .retain(|pod| pod.name != "chat-db-b-1");
    assert_eq!(grown.asks(), ALL);
}

#[test]
fn super_disks_grow_one_after_another_each_when_the_one_before_is_whole() {
    let mut grown = Grown::on_super_disks();
    assert_eq!(grown.asks(), ALL[..1]);
    assert_eq!(
        grown.waits().unwrap(),
        "the volume of data-chat-db-a-0 grows to 2Ti; 3 more grow or have yet to"
    );
    // The driver is at it, then the agent.
    grown.claim(ALL[0], "2Ti", "1Ti");
    assert_eq!(grown.asks(), [""; 0]);
    grown.claim(ALL[0], "2Ti", "2Ti");
    assert_eq!(grown.asks(), [""; 0]);
    assert_eq!(
        grown.waits().unwrap(),
        "the volume of data-chat-db-a-0 grows to 2Ti: its super-disk uses 1048576 MiB of the volume, and uses all of it \
         once the pod is of this operator's release and its local disks together are as large; 3 more grow or have yet to"
    );
    // As md has it: something is left before the data.
    let grown_mirror = 2 * TIB - (193 << 20);
    let step = Condition::FastLost {
        waiting_on: Some(WaitingOn::Step),
    };
    for condition in [step, Condition::Rebuilding] {
        grown.disk(ALL[0], condition, grown_mirror);
        assert_eq!(grown.asks(), [""; 0]);
    }
    assert_eq!(
        grown.waits().unwrap(),
        "the volume of data-chat-db-a-1 grows to 2Ti: the super-disk of chat-db-a-0 comes first: the local disks are filled \
         from the network disk, which serves meanwhile; 2 more grow or have yet to"
    );
    grown.disk(ALL[0], Condition::Healthy, grown_mirror);
    assert_eq!(grown.asks(), ALL[1..2]);
    for pod in ALL {
        grown.claim(pod, "2Ti", "2Ti");
        grown.disk(pod, Condition::Healthy, grown_mirror);
    }
    assert_eq!(grown.waits(), None);
}

#[test]
fn a_super_disk_that_waits_for_a_person_or_is_away_holds_up_no_other() {
    let mut grown = Grown::on_super_disks();
    let too_few = Condition::FastLost {
        waiting_on: Some(WaitingOn::LocalDevices {
            found: 0,
            wanted: 1,
        }),
    };
    grown.disk(ALL[3], too_few, TIB);
    grown.world.super_disks.remove(ALL[2]);
    assert_eq!(grown.asks(), ALL[..1]);
}

#[test]
fn a_super_disk_smaller_than_a_volume_that_has_not_grown_is_no_news() {
    let mut grown = Grown::on_super_disks();
    for set in grown.world.racks.values_mut() {
        set.claim_size = Some(Quantity("2Ti".to_owned()));
    }
    for pod in ALL {
        grown.claim(pod, "2Ti", "2Ti");
        grown.disk(pod, Condition::Healthy, TIB / 2);
    }
    assert_eq!(grown.waits(), None);
}

#[test]
fn a_rack_makes_claims_of_the_size_that_it_was_made_with() {
    let mut grown = Grown::new();
    let made = Quantity("1Ti".to_owned());
    for set in grown.world.racks.values_mut() {
        set.claim_size = Some(made.clone());
    }
    let plan = grown.plan();
    assert!(
        plan.racks
            .iter()
            .all(|rack| rack.claim_size.as_ref() == Some(&made))
    );
    // Its template is as wanted; it would say that the spec has changed.
    assert!(plan.database.update.is_none());
    grown.world.racks.remove("b");
    let plan = grown.plan();
    assert_eq!(plan.racks[1].claim_size, None);
}
