use super::*;
use crate::{
    fixtures,
    plan::{
        Plan,
        database::sim::{Sim, two_and_two},
        plan,
    },
    world::World,
};

/// Two racks of two nodes on volumes of 1Ti, and a spec that says 2Ti.
struct Grown {
    sim: Sim,
    world: World,
}

impl Grown {
    fn new() -> Self {
        let mut sim = Sim::up(&two_and_two());
        let mut world = sim.world();
        for claim in world.nodes.claims.values_mut() {
            claim.size = size("1Ti", "1Ti");
        }
        sim.cluster = fixtures::cluster(&two_and_two().replace("1Ti", "2Ti"));
        Self { sim, world }
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
    let wait = |grown: &Grown| {
        let sight = Sight::of(&grown.sim.cluster, &grown.world, grown.sim.clock).unwrap();
        grow(&sight, &mut NodesStep::default()).map(|wait| wait.to_string())
    };
    assert_eq!(wait(&grown), None);
    grown.claim("chat-db-b-0", "2Ti", "1Ti");
    let claim = grown
        .world
        .nodes
        .claims
        .get_mut("data-chat-db-b-0")
        .unwrap();
    claim.size.words = Some("waiting for the node".to_owned());
    assert_eq!(
        wait(&grown).unwrap(),
        "the volume of data-chat-db-b-0 grows to 2Ti: waiting for the node"
    );
    grown.claim("chat-db-b-1", "1Ti", "1Ti");
    assert_eq!(
        wait(&grown).unwrap(),
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
fn a_rack_makes_claims_of_the_size_that_it_was_made_with() {
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

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
