//! Racks whose pods get their templates in every order there is, are lost and made again at every moment, while users change
//! their mind: nodes that run never fail to understand each other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use readstates_operator_api::InternodeTls;

use super::{RackSeen, next, stage};
use crate::{
    fixtures::{CASSANDRA, EXTERNAL, Scene, cluster, now, scene, with_tls},
    templates::{RackStep, Template},
    world::PodSeen,
};

/// A rack of two pods.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rack {
    template: InternodeTls,
    /// Of its last update that was completed.
    before: InternodeTls,
    /// Of pods that run.
    pods: [Option<InternodeTls>; 2],
}

impl Rack {
    fn seen(&self) -> RackSeen {
        let updated = self.pods.iter().all(|pod| *pod == Some(self.template));
        RackSeen {
            stage: self.template,
            complete: updated && self.before == self.template,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Database {
    racks: [Rack; 2],
    wanted: InternodeTls,
}

impl Database {
    fn at(stage: InternodeTls, wanted: InternodeTls) -> Self {
        let rack = Rack {
            template: stage,
            before: stage,
            pods: [Some(stage); 2],
        };
        Self {
            racks: [rack; 2],
            wanted,
        }
    }

    fn decided(&self) -> InternodeTls {
        next(&self.racks.map(|rack| rack.seen()), self.wanted)
    }

    fn has(&self, stage: InternodeTls) -> bool {
        *self == Self::at(stage, self.wanted)
    }

    /// What the operator and Kubernetes may do next, `more` with pods that are lost and users who change their mind.
    fn steps(&self, more: bool) -> Vec<Self> {
        let mut steps = Vec::new();
        let decided = self.decided();
        for r in 0..2 {
            let rack = self.racks[r];
            let mut step = |change: &dyn Fn(&mut Rack)| {
                let mut after = *self;
                change(&mut after.racks[r]);
                steps.push(after);
            };
            step(&|rack| rack.template = decided);
            if rack.pods.iter().all(|pod| *pod == Some(rack.template)) {
                step(&|rack| rack.before = rack.template);
            }
            for p in 0..2 {
                step(&|rack| rack.pods[p] = Some(rack.template));
                if more {
                    step(&|rack| rack.pods[p] = None);
                }
                // A pod that is made again before its turn.
                if rack.pods[p].is_none() {
                    step(&|rack| rack.pods[p] = Some(rack.before));
                }
            }
        }
        if more {
            for wanted in [InternodeTls::Disabled, InternodeTls::Required] {
                steps.push(Self { wanted, ..*self });
            }
        }
        steps
    }

    /// Whether every node that runs accepts how the others connect.
    fn understand_each_other(&self) -> bool {
        let running = || self.racks.iter().flat_map(|rack| rack.pods).flatten();
        running().all(|from| {
            running().all(|to| match (over_tls(from), to) {
                (true, InternodeTls::Disabled) | (false, InternodeTls::Required) => false,
                (true | false, _) => true,
            })
        })
    }
}

fn over_tls(stage: InternodeTls) -> bool {
    stage >= InternodeTls::Preferred
}

fn reached(from: Database, more: bool) -> BTreeSet<Database> {
    let mut reached = BTreeSet::from([from]);
    let mut next = VecDeque::from([from]);
    while let Some(database) = next.pop_front() {
        for step in database.steps(more) {
            if reached.insert(step) {
                next.push_back(step);
            }
        }
    }
    reached
}

#[test]
fn nodes_always_understand_each_other_and_arrive() {
    let all = reached(
        Database::at(InternodeTls::Disabled, InternodeTls::Required),
        true,
    );
    assert!(all.len() > 1000, "{}", all.len());
    for database in &all {
        assert!(database.understand_each_other());
    }
    // From wherever it is, it comes to what is wanted once no more pods are lost and users leave it alone.
    let mut leads_to: BTreeMap<Database, Vec<Database>> = BTreeMap::new();
    for database in &all {
        for step in database.steps(false) {
            leads_to.entry(step).or_default().push(*database);
        }
    }
    let there = all.iter().copied().filter(|it| it.has(it.wanted));
    let mut arrives: BTreeSet<Database> = there.collect();
    let mut next: VecDeque<Database> = arrives.iter().copied().collect();
    while let Some(database) = next.pop_front() {
        for before in leads_to.get(&database).into_iter().flatten() {
            if arrives.insert(*before) {
                next.push_back(*before);
            }
        }
    }
    assert_eq!(arrives.len(), all.len());
}

#[test]
fn two_stages_at_once_would_be_noticed() {
    let mut database = Database::at(InternodeTls::Disabled, InternodeTls::Required);
    database.racks[0].pods[0] = Some(InternodeTls::Preferred);
    assert!(!database.understand_each_other());
    database.racks[0].pods[0] = Some(InternodeTls::Accepted);
    assert!(database.understand_each_other());
    database.racks[1].pods = [Some(InternodeTls::Required); 2];
    assert!(!database.understand_each_other());
}

/// The racks of a Cassandra, whose nodes run with `stage`.
fn running(spec: &str, stage: InternodeTls) -> Scene {
    let mut scene = scene(spec);
    scene.cluster = scene.cluster.between_nodes(Some(stage));
    let mut scene = scene.database_ready();
    for name in ["a", "b"] {
        let (database, rack) = scene.managed(name);
        let step = RackStep {
            rack: name.to_owned(),
            members: rack.members,
            partition: 0,
            template: Template::Wanted,
            restarted: None,
            parallel: false,
            claim_size: None,
            version: None,
        };
        let set = crate::templates::rack(&scene.cluster, database, rack, &step, false);
        let pods = (0..rack.members).map(|ordinal| PodSeen {
            name: format!("chat-db-{name}-{ordinal}"),
            ready: true,
            revision: Some("r1".to_owned()),
            ..PodSeen::default()
        });
        let pods: Vec<_> = pods.collect();
        scene
            .world
            .database_pods
            .retain(|pod| !pods.iter().any(|p| p.name == pod.name));
        scene.world.database_pods.extend(pods);
        let seen = scene.world.racks.get_mut(name).unwrap();
        seen.revised = true;
        seen.template = set.spec.map(|spec| Box::new(spec.template));
    }
    scene
}

fn next_of(scene: &Scene) -> Option<InternodeTls> {
    stage(&scene.cluster, &scene.world, now())
}

#[test]
fn the_stage_is_read_from_the_templates() {
    use InternodeTls::{Accepted, Disabled, Preferred, Required};
    let plain = with_tls(CASSANDRA);
    let tls = plain.replace("secretName: certs", "secretName: certs, internode: true");
    for (had, up, down) in [
        (Disabled, Accepted, Disabled),
        (Accepted, Preferred, Disabled),
        (Preferred, Required, Accepted),
        (Required, Required, Preferred),
    ] {
        assert_eq!(next_of(&running(&tls, had)), Some(up), "{had:?}");
        assert_eq!(next_of(&running(&plain, had)), Some(down), "{had:?}");
    }
    // A pod is missing, is of the template before, or goes.
    for change in [
        |pod: &mut PodSeen| pod.name = "chat-db-c-0".to_owned(),
        |pod: &mut PodSeen| pod.revision = None,
        |pod: &mut PodSeen| pod.terminating = true,
    ] {
        let mut scene = running(&tls, Accepted);
        change(scene.world.database_pods.last_mut().unwrap());
        assert_eq!(next_of(&scene), Some(Accepted));
    }
}

#[test]
fn a_database_without_nodes_begins_with_what_is_wanted() {
    let plain = with_tls(CASSANDRA);
    let tls = plain.replace("secretName: certs", "secretName: certs, internode: true");
    assert_eq!(next_of(&scene(&tls)), Some(InternodeTls::Required));
    assert_eq!(next_of(&scene(&plain)), Some(InternodeTls::Disabled));
    assert_eq!(next_of(&scene(CASSANDRA)), None);
    assert_eq!(next_of(&scene(&with_tls(EXTERNAL))), None);
}

#[test]
fn each_stage_is_the_wish_of_the_user_and_needs_no_consent() {
    let plain = with_tls(CASSANDRA);
    let tls = plain.replace("secretName: certs", "secretName: certs, internode: true");
    let hash = |stage| {
        let cluster = cluster(&tls).between_nodes(Some(stage));
        match &cluster.store {
            crate::spec::Store::Managed(database) => database.spec_hash(None),
            store => panic!("{store:?}"),
        }
    };
    let stages = [
        InternodeTls::Disabled,
        InternodeTls::Accepted,
        InternodeTls::Preferred,
        InternodeTls::Required,
    ];
    let hashes: BTreeSet<_> = stages.into_iter().map(hash).collect();
    assert_eq!(hashes.len(), stages.len());
    // As it was before there were stages.
    let wanted = cluster(&tls);
    let crate::spec::Store::Managed(database) = &wanted.store else {
        panic!("no database")
    };
    assert_eq!(database.spec_hash(None), hash(InternodeTls::Required));
}
