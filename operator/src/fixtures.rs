//! A world in few verbs, for the tests of the pure steps.

use jiff::Timestamp;
use readstates_operator_api::{ReadStateClusterSpec, ReadStateRingSpec, RingMember};

use crate::{
    build,
    context::Images,
    observe::{JobOutcome, JobSeen, Member, PodSeen, Seen, StatefulSetSeen, World},
    plan::{CacheStep, Plan, plan},
    validate::{Database, Identity, InvalidSpec, Rack, Store, ValidatedCluster, validate},
};

pub(crate) const CASSANDRA: &str = "
replicas: 3
database:
  engine: Cassandra
  replicationFactor: 2
  racks: [{ name: a, members: 1 }, { name: b, members: 2, zone: zone-b }]
  storage: { size: 1Ti, storageClassName: fast }
  resources: { limits: { cpu: '2', memory: 8Gi } }
";

pub(crate) const EXTERNAL: &str = "
replicas: 2
database:
  external:
    contactPoints: [db-1.example, db-2.example]
    localDatacenter: east
    replicationFactor: 3
    secretRef: { name: login }
";

pub(crate) const EMBEDDED: &str = "{ replicas: 1, database: { embedded: {} } }";

pub(crate) fn images() -> Images {
    Images {
        readstates: "readstates:1".to_owned(),
        cassandra: "cassandra:5".to_owned(),
        scylla: "scylla:6".to_owned(),
        agent: "operator:1".to_owned(),
    }
}

pub(crate) fn id() -> Identity {
    Identity {
        namespace: "talk".to_owned(),
        name: "chat".to_owned(),
        uid: "uid-of-chat".to_owned(),
        generation: 1,
    }
}

pub(crate) fn try_cluster(spec: &str) -> Result<ValidatedCluster, InvalidSpec> {
    let spec: ReadStateClusterSpec = serde_yaml_ng::from_str(spec).unwrap();
    validate(id(), &spec, &images())
}

pub(crate) fn cluster(spec: &str) -> ValidatedCluster {
    try_cluster(spec).unwrap()
}

pub(crate) fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

pub(crate) fn table(number: i64, members: usize) -> ReadStateRingSpec {
    let member = |i| RingMember {
        name: format!("chat-{i}"),
        url: format!("http://chat-{i}.chat-members.talk.svc:7400"),
        zone: None,
    };
    ReadStateRingSpec {
        number,
        members: (0..members).map(member).collect(),
    }
}

pub(crate) struct Scene {
    pub(crate) cluster: ValidatedCluster,
    pub(crate) world: World,
}

pub(crate) fn scene(spec: &str) -> Scene {
    Scene {
        cluster: cluster(spec),
        world: World::default(),
    }
}

impl Scene {
    /// The rack is as wanted, with this many members ready.
    pub(crate) fn rack(mut self, name: &str, ready: i32) -> Self {
        let (database, rack) = self.managed(name);
        let seen = StatefulSetSeen {
            replicas: rack.members,
            existing: rack.members,
            ready,
            settled: true,
            observed: true,
            update_revision: Some("r1".to_owned()),
            template_hash: Some(build::template_hash(&self.cluster, database, rack)),
            spec_hash: Some(database.spec_hash.clone()),
            template: Some(Box::default()),
            ..StatefulSetSeen::default()
        };
        self.world.racks.insert(name.to_owned(), seen);
        self
    }

    pub(crate) fn managed(&self, rack: &str) -> (&Database, &Rack) {
        let Store::Managed(database) = &self.cluster.store else {
            panic!("no racks")
        };
        let rack = database.racks.iter().find(|r| r.name == rack).unwrap();
        (database, rack)
    }

    pub(crate) fn database_ready(self) -> Self {
        self.rack("a", 1).rack("b", 2)
    }

    pub(crate) fn schema(mut self, outcome: JobOutcome) -> Self {
        let name = build::schema_job_name(&self.cluster).unwrap();
        self.world.jobs.insert(
            name,
            JobSeen {
                uid: "uid-of-job".to_owned(),
                outcome,
            },
        );
        self
    }

    /// Database and schema are there: what comes next is the cache.
    pub(crate) fn ready_for_cache(self) -> Self {
        self.database_ready().schema(JobOutcome::Succeeded)
    }

    pub(crate) fn published(mut self, table: ReadStateRingSpec) -> Self {
        self.world.ring = Some(table);
        self
    }

    /// Every member of the table runs with it, ready.
    pub(crate) fn running(mut self, table: &ReadStateRingSpec) -> Self {
        let count = i32::try_from(table.members.len()).unwrap();
        self.world.cache = Some(StatefulSetSeen {
            replicas: count,
            existing: count,
            ready: count,
            settled: true,
            applied_hash: Some(build::fingerprint(&build::cache(
                &self.cluster,
                &CacheStep::Run(table.clone()),
            ))),
            table: Some(table.clone()),
            ..StatefulSetSeen::default()
        });
        for member in &table.members {
            self = self.pod(&member.name, table.number);
            let says = Member {
                ring_number: table.number,
                states: 10,
                dirty: 2,
                store_problem: None,
            };
            self.world
                .members
                .insert(member.name.clone(), Seen::Known(says));
        }
        self
    }

    /// The StatefulSet is at zero; these pods are still on their way out.
    pub(crate) fn stopping(mut self, table: &ReadStateRingSpec, left: &[&str]) -> Self {
        self.world.cache = Some(StatefulSetSeen {
            existing: i32::try_from(left.len()).unwrap(),
            settled: left.is_empty(),
            table: Some(table.clone()),
            ..StatefulSetSeen::default()
        });
        for name in left {
            self = self.pod(name, table.number);
            self.world.cache_pods.last_mut().unwrap().terminating = true;
        }
        self
    }

    /// A ready pod with the labels of the cache.
    pub(crate) fn pod(mut self, name: &str, ring_number: i64) -> Self {
        self.world.cache_pods.push(PodSeen {
            name: name.to_owned(),
            ready: true,
            ip: Some("10.0.0.1".to_owned()),
            ring_number: Some(ring_number),
            ..PodSeen::default()
        });
        self
    }

    pub(crate) fn says(mut self, name: &str, change: impl FnOnce(&mut Member)) -> Self {
        match self.world.members.get_mut(name) {
            Some(Seen::Known(member)) => change(member),
            other => panic!("{name} says {other:?}"),
        }
        self
    }

    pub(crate) fn plan(&self) -> Plan {
        plan(&self.cluster, &self.world, now())
    }
}
