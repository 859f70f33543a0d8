//! A world in few verbs, for the tests of the pure steps.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Container, PodSpec, PodTemplateSpec},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use readstates_api::admin::{IdentityStatus, OwnershipStatus};
use readstates_operator_api::{
    DatabaseReplication, DatabaseReplicationStage, ReadStateClusterSpec, labels,
};
use readstates_ring::{
    Incarnation, RingMember, RingTable, Slot, Succession,
    moves::{self, Live},
    planner::Candidate,
    record::RingRecord,
};

use crate::{
    plan::{AUTHORITY_VALID, LEAF_VALID, Plan, plan},
    spec::{
        Asked, Certificates, Database, Identity, Images, Login, Observed, Rack, Store,
        ValidatedCluster,
    },
    super_disk::{AgentState, BrokenSlots, Condition, SuperDiskSeen},
    templates::{self, Template},
    validate::{InvalidSpec, validate},
    world::{
        AuthoritySeen, CertificateSeen, CertificatesSeen, Found, IdentitySeen, JobOutcome, JobSeen,
        LeafSeen, Member, PodSeen, RingSeen, SecretSeen, Seen, StatefulSetSeen, Version, World,
    },
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

/// The ClusterRole that the operator may bind cache pods to.
pub(crate) const TOKEN_REVIEW: &str = "readstates-operator-token-review";

/// [`CASSANDRA`] with certificates in the Secret `certs`.
pub(crate) fn with_tls(spec: &str) -> String {
    spec.replace("database:\n", "database:\n  tls: { secretName: certs }\n")
}

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
        super_disk: "superdisk:1".to_owned(),
        pull_secrets: Vec::new(),
    }
}

pub(crate) fn id() -> Identity {
    Identity {
        namespace: "talk".to_owned(),
        name: "chat".to_owned(),
        uid: "uid-of-chat".to_owned(),
        generation: 1,
        adopts: false,
    }
}

pub(crate) fn try_cluster(spec: &str) -> Result<ValidatedCluster, InvalidSpec> {
    let spec: ReadStateClusterSpec = serde_yaml_ng::from_str(spec).unwrap();
    validate(id(), &spec, &images())
}

pub(crate) fn cluster(spec: &str) -> ValidatedCluster {
    let cluster = try_cluster(spec).unwrap();
    let certificates = Certificates {
        mark: cluster.certificate_secret().map(|_| "m1".to_owned()),
        client: false,
    };
    let login = Login {
        version: Some("1".to_owned()),
        asked_for: true,
    };
    let role = TOKEN_REVIEW.to_owned();
    let observed = Observed {
        login,
        certificates,
        ..Observed::default()
    };
    cluster.seen(observed).asked(Asked {
        operator_namespace: "system",
        token_review_role: Some(&role),
        ..Asked::default()
    })
}

pub(crate) fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

/// The process that a pod is in this life of its container.
pub(crate) fn process(ordinal: i32, life: u64) -> Incarnation {
    Incarnation::new(u64::try_from(ordinal).unwrap() * 100 + life)
}

fn ring_member(ordinal: i32, life: u64) -> RingMember {
    let name = format!("chat-{ordinal}");
    let url = format!("http://{name}.chat-members.talk.svc:7400");
    RingMember::new(name, process(ordinal, life), url, None).unwrap()
}

/// The table in which each of the slots that `live` should own is theirs.
pub(crate) fn spread(table: &RingTable, live: &[(i32, u64)]) -> RingTable {
    let candidates: Vec<_> = live
        .iter()
        .map(|&(ordinal, life)| Live {
            incarnation: process(ordinal, life),
            candidate: Candidate {
                name: format!("chat-{ordinal}"),
                ordinal: u16::try_from(ordinal).ok(),
                zone: None,
            },
        })
        .collect();
    let planned = moves::planned(table, &candidates);
    let mut next = table.clone();
    for &(ordinal, life) in live {
        let theirs: Vec<_> = Slot::all()
            .zip(&planned)
            .filter(|(_, owner)| **owner == process(ordinal, life))
            .map(|(slot, _)| (slot, next.config(slot)))
            .filter(|(_, config)| config.is_none_or(|c| c.owner() != process(ordinal, life)))
            .map(|(slot, config)| (slot, config.map(|c| c.epoch())))
            .collect();
        let swapped = next.swap(
            &theirs,
            &ring_member(ordinal, life),
            Succession::Handed,
            now().as_microsecond(),
        );
        next = swapped.unwrap();
    }
    next
}

/// A template of pods that were restarted for this request.
pub(crate) fn template(restarted: Option<&str>) -> PodTemplateSpec {
    let annotation = |request: &str| (labels::RESTARTED.to_owned(), request.to_owned());
    PodTemplateSpec {
        metadata: restarted.map(|request| ObjectMeta {
            annotations: Some([annotation(request)].into()),
            ..ObjectMeta::default()
        }),
        spec: None,
    }
}

/// The same of a database of this image.
pub(crate) fn template_of(image: &str, restarted: Option<&str>) -> PodTemplateSpec {
    let database = Container {
        name: "database".to_owned(),
        image: Some(image.to_owned()),
        ..Container::default()
    };
    PodTemplateSpec {
        spec: Some(PodSpec {
            containers: vec![database],
            ..PodSpec::default()
        }),
        ..template(restarted)
    }
}

/// A certificate that was issued a day ago and has this validity.
pub(crate) fn certificate(mark: &str, valid: Duration) -> CertificateSeen {
    let not_before = now() - Duration::from_hours(24);
    CertificateSeen {
        mark: mark.to_owned(),
        not_before,
        not_after: not_before + valid,
    }
}

/// The certificates that a process says it has.
pub(crate) fn shown(certificate: &str, trusted: &[&str]) -> IdentityStatus {
    IdentityStatus {
        certificate: certificate.to_owned(),
        trusted: trusted.iter().map(|mark| (*mark).to_owned()).collect(),
        expires: "2026-12-31T00:00:00Z".to_owned(),
    }
}

/// A Secret of ours that says this.
pub(crate) fn known<T>(content: T) -> Found<T> {
    Found::Known {
        version: Version::default(),
        content,
    }
}

/// The certificates `member-1`, `operator-1` and `agent-1` of the authority `ca-1`, all new.
pub(crate) fn identity() -> IdentitySeen {
    let leaf = |role: &str| {
        known(LeafSeen {
            certificate: certificate(&format!("{role}-1"), LEAF_VALID),
            issued_by: Some("ca-1".to_owned()),
            trusted: vec!["ca-1".to_owned()],
            written: Some(now() - Duration::from_hours(24)),
        })
    };
    IdentitySeen {
        authority: known(AuthoritySeen {
            issuing: Some(certificate("ca-1", AUTHORITY_VALID)),
            ..AuthoritySeen::default()
        }),
        member: leaf("member"),
        operator: leaf("operator"),
        agent: leaf("agent"),
        ..IdentitySeen::default()
    }
}

/// A mounted super-disk that its agent says is so.
pub(crate) fn super_disk(condition: Condition) -> SuperDiskSeen {
    SuperDiskSeen::Answered(AgentState {
        mounted: true,
        condition,
        refusal: None,
        last_error: None,
        facts: None,
        broken_slots: BrokenSlots::default(),
    })
}

pub(crate) struct Scene {
    pub(crate) cluster: ValidatedCluster,
    pub(crate) world: World,
}

pub(crate) fn scene(spec: &str) -> Scene {
    let cluster = cluster(spec);
    let mark = cluster.certificates.mark.clone();
    Scene {
        world: World {
            certificates: mark.map(|mark| CertificatesSeen::Complete {
                mark,
                client: false,
                expires: None,
            }),
            secret: Some(SecretSeen::Complete),
            superuser: Some(SecretSeen::Complete),
            identity: identity(),
            ..World::default()
        },
        cluster,
    }
}

impl Scene {
    /// The certificates are seen to be like this, which is not as they should be.
    pub(crate) fn certificates(mut self, seen: CertificatesSeen) -> Self {
        self.world.certificates = Some(seen);
        self.cluster.certificates = self.world.certificates();
        self
    }

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
            template_hash: Some(templates::template_hash(&self.cluster, database, rack)),
            spec_hash: Some(database.spec_hash(None)),
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

    /// The racks are as wanted, and how many copies there are is on record.
    pub(crate) fn database_ready(self) -> Self {
        let mut scene = self.rack("a", 1).rack("b", 2);
        if let Store::Managed(database) = &scene.cluster.store {
            scene.world.replication = Some(DatabaseReplication {
                keyspace: database.copies.keyspace,
                complete: database.copies.complete,
                stage: DatabaseReplicationStage::Stable,
                since: Time(now()),
            });
        }
        scene
    }

    pub(crate) fn schema(mut self, outcome: JobOutcome) -> Self {
        let name = templates::schema_job_name(&self.cluster).unwrap();
        let job = JobSeen {
            uid: "uid-of-job".to_owned(),
            outcome,
            makes: templates::wanted_store(&self.cluster),
        };
        // Any other is deleted before it starts.
        self.world.jobs = [(name, job)].into();
        self
    }

    /// Database and schema are there: what comes next is the cache.
    pub(crate) fn ready_for_cache(self) -> Self {
        self.database_ready().schema(JobOutcome::Succeeded)
    }

    /// A ring without owners.
    pub(crate) fn empty_ring(mut self) -> Self {
        let record = RingRecord {
            number: 1,
            ..RingRecord::from(&RingTable::default())
        };
        self.world.ring = RingSeen::Known(record.try_into().unwrap());
        self
    }

    /// The StatefulSet asks for `replicas` pods, and its controller has observed it.
    pub(crate) fn set(mut self, replicas: i32) -> Self {
        self.world.cache = Some(StatefulSetSeen {
            replicas,
            existing: replicas,
            ready: replicas,
            settled: true,
            observed: true,
            applied_hash: Some(templates::applied_hash(&templates::cache(
                &self.cluster,
                replicas,
                &Template::Wanted,
                None,
            ))),
            template_hash: Some(templates::cache_template_hash(&self.cluster)),
            spec_hash: Some(self.cluster.cache_spec_hash()),
            template: Some(Box::default()),
            update_revision: Some("new".to_owned()),
            version: Some("7".to_owned()),
            ..StatefulSetSeen::default()
        });
        self
    }

    /// So many members run, ready, and each owns its share.
    pub(crate) fn running(mut self, members: i32) -> Self {
        self = self.empty_ring().set(members);
        for ordinal in 0..members {
            self = self.joined(ordinal, 1);
        }
        let live: Vec<_> = (0..members).map(|ordinal| (ordinal, 1)).collect();
        self.shared_by(&live)
    }

    /// A pod is ready, of the current template, and owns what the ring gives it: nothing at first.
    pub(crate) fn joined(mut self, ordinal: i32, life: u64) -> Self {
        let name = format!("chat-{ordinal}");
        self.world.cache_pods.retain(|p| p.name != name);
        self.world.cache_pods.push(PodSeen {
            name: name.clone(),
            ready: true,
            running: true,
            ip: Some(format!("10.0.0.{ordinal}")),
            uid: Some(format!("uid-{ordinal}-{life}")),
            mutual_tls: true,
            revision: Some("new".to_owned()),
            created: Some(now() - Duration::from_hours(1)),
            ..PodSeen::default()
        });
        self.world.cache_pods.sort_by(|a, b| a.name.cmp(&b.name));
        let says = Member {
            incarnation: process(ordinal, life),
            ring_number: 1,
            states: 10,
            dirty: 2,
            capacity: self.cluster.cache.capacity_states,
            store_problem: None,
            ownership: OwnershipStatus {
                lease_valid: true,
                ..OwnershipStatus::default()
            },
            identity: Some(shown("member-1", &["ca-1"])),
        };
        self.world.members.insert(name, Seen::Known(says));
        self.told_by_the_ring()
    }

    /// These own all slots, each its share.
    pub(crate) fn shared_by(mut self, live: &[(i32, u64)]) -> Self {
        let table = spread(self.world.ring.table().unwrap(), live);
        self.world.ring = RingSeen::Known(table);
        self.told_by_the_ring()
    }

    fn told_by_the_ring(mut self) -> Self {
        let table = self.world.ring.table().cloned().unwrap_or_default();
        for seen in self.world.members.values_mut() {
            if let Seen::Known(member) = seen {
                let owned = table.owned_by(member.incarnation).count();
                member.ownership.owned = u16::try_from(owned).unwrap();
            }
        }
        self
    }

    /// Changes what was seen of a pod.
    pub(crate) fn pod(mut self, name: &str, change: impl FnOnce(&mut PodSeen)) -> Self {
        let pods = &mut self.world.cache_pods;
        change(pods.iter_mut().find(|p| p.name == name).unwrap());
        self
    }

    /// Each of these was made from an older template.
    pub(crate) fn outdated(mut self, names: &[&str]) -> Self {
        for name in names {
            self = self.pod(name, |p| p.revision = Some("old".to_owned()));
        }
        self
    }

    /// A pod without a process.
    pub(crate) fn down(mut self, name: &str) -> Self {
        self.world.members.remove(name);
        self.pod(name, |p| {
            p.ready = false;
            p.running = false;
            p.trouble = Some("readstates: ImagePullBackOff".to_owned());
        })
    }

    /// There is no such pod.
    pub(crate) fn gone(mut self, name: &str) -> Self {
        self.world.members.remove(name);
        self.world.cache_pods.retain(|p| p.name != name);
        self
    }

    /// A pod that does not answer.
    pub(crate) fn silent(mut self, name: &str) -> Self {
        let unknown = Seen::Unknown("timed out".to_owned());
        self.world.members.insert(name.to_owned(), unknown);
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
