//! A database that starts with the volumes of a cluster of another name.

use readstates_agent::wire::Disk;

use crate::{
    plan::database::sim::{Sim, two_and_two},
    world::Seen,
};

use super::{ALL, trouble};

/// Copies of the volumes of `prod/old`, under the names of this cluster, which has not started yet.
fn copied() -> Sim {
    let mut sim = Sim::up(&two_and_two());
    sim.may_be_down = 4;
    for pod in ALL {
        sim.stop(pod);
        let Disk::Known { host_id, .. } = sim.volume(pod).disk.clone() else {
            panic!("{pod} was a member")
        };
        let signed = pod.replacen("chat", "old", 1);
        sim.volume(pod).disk = Disk::Known {
            host_id,
            pod: Some(signed),
        };
    }
    sim.racks.clear();
    sim.forgets();
    sim.also("  volumesOf: { namespace: prod, name: old }\n");
    sim.volumes_of_exists = Some(Seen::Known(false));
    sim.log.clear();
    sim
}

#[test]
fn nodes_start_on_the_volumes_of_a_cluster_of_another_name_that_is_gone() {
    let mut sim = copied();
    let ring = |sim: &Sim| -> Vec<_> { sim.ring.iter().map(|n| n.host_id.clone()).collect() };
    let before = ring(&sim);
    sim.run();
    assert_eq!(sim.members(), ALL, "{:?} {}", sim.log, trouble(&sim));
    assert_eq!(ring(&sim), before, "the same nodes, with their data");
    assert!(sim.told().iter().all(|r| r.ends_with("Member")));
}

#[test]
fn while_the_other_cluster_exists_or_that_is_not_known_no_node_is_started_on_its_volumes() {
    for (exists, words) in [
        (
            Seen::Known(true),
            "which still exists: delete that one first",
        ),
        (
            Seen::Unknown("forbidden".to_owned()),
            "whether that still exists is not known: forbidden",
        ),
    ] {
        let mut sim = copied();
        sim.volumes_of_exists = Some(exists);
        sim.run();
        assert!(sim.members().is_empty());
        assert!(sim.records.is_empty());
        assert!(trouble(&sim).contains(words), "{}", trouble(&sim));
    }
}

#[test]
fn volumes_of_the_same_names_in_another_place_of_that_cluster_are_not_started() {
    let mut sim = copied();
    // The copies of two volumes were mixed up.
    let [one, two] = ["chat-db-a-0", "chat-db-a-1"].map(|pod| sim.volume(pod).disk.clone());
    sim.volume("chat-db-a-0").disk = two;
    sim.volume("chat-db-a-1").disk = one;
    sim.run();
    assert!(sim.members().is_empty());
    let words = trouble(&sim);
    assert!(words.contains("which was signed by old-db-a-0"), "{words}");
}

#[test]
fn without_being_told_so_a_database_does_not_start_with_volumes_of_another_name() {
    let mut sim = copied();
    sim.respec(&two_and_two());
    sim.volumes_of_exists = None;
    sim.run();
    assert!(sim.members().is_empty());
    let words = trouble(&sim);
    assert!(words.contains("which was signed by old-db-a-1"), "{words}");
}

#[test]
fn an_empty_volume_does_not_begin_a_database_that_is_to_start_with_others() {
    let mut sim = copied();
    for pod in ALL {
        sim.disks.remove(pod);
    }
    sim.run();
    assert!(sim.members().is_empty());
    assert!(sim.records.is_empty());
    let words = trouble(&sim);
    let cure = "delete this pod and its claim data-chat-db-a-0, and make the claim again as a copy of data-old-db-a-0";
    assert!(words.contains(cure), "{words}");
}
