//! The ring of a real API server. `READSTATES_TEST_APISERVER` is the kubeconfig of one that is used for nothing
//! else: `hack/apiserver run cargo test -p readstates --test service ring_stores`. Without it these tests say that
//! they were skipped.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use k8s_openapi::{
    api::{coordination::v1::Lease, core::v1::Namespace},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Config, ResourceExt,
    api::{Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    runtime::{conditions::is_crd_established, wait::await_condition},
};
use readstates::{
    ownership::store::{KubernetesRing, RingStore, Swapped},
    store::chain,
};
use readstates_operator_api::{ReadStateRing, crd_files};
use readstates_ring::{Line, RingTable, SLOTS};
use serde_json::json;

use super::conformance::{conforms, read, taken};
use crate::common::rings::presence;

const KUBECONFIG: &str = "READSTATES_TEST_APISERVER";
/// What the ring does is asked here, and not how soon: the machine may be busy with something else.
const PATIENCE: Duration = Duration::from_mins(1);

/// A namespace of its own.
struct KubernetesWorld {
    config: Config,
    client: Client,
    namespace: String,
}

impl KubernetesWorld {
    async fn new() -> Option<Self> {
        let Some(path) = std::env::var_os(KUBECONFIG) else {
            println!("SKIPPED: {KUBECONFIG} is not set; hack/apiserver run COMMAND sets it");
            return None;
        };
        let kubeconfig = Kubeconfig::read_from(path).unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .unwrap();
        let client = Client::try_from(config.clone()).unwrap();
        install_crds(&client).await;
        let mut namespace = Namespace::default();
        namespace.metadata.generate_name = Some("ring-".to_owned());
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let made = namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .unwrap();
        Some(Self {
            config,
            client,
            namespace: made.name_any(),
        })
    }

    fn ring(&self) -> KubernetesRing {
        KubernetesRing::with_config(self.config.clone(), &self.namespace, "chat")
            .unwrap()
            .answered_within(PATIENCE)
    }

    fn rings(&self) -> Api<ReadStateRing> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

async fn install_crds(client: &Client) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PatchParams::apply("tests").force();
    let install = crd_files().into_iter().map(|file| {
        let (api, params) = (api.clone(), &params);
        async move {
            let name = file.crd.name_any();
            api.patch(&name, params, &Patch::Apply(&file.crd))
                .await
                .unwrap();
            await_condition(api, &name, is_crd_established())
                .await
                .unwrap();
        }
    });
    join_all(install).await;
}

#[tokio::test]
async fn the_ring_in_kubernetes_conforms() {
    let Some(world) = KubernetesWorld::new().await else {
        return;
    };
    conforms(async || Arc::new(world.ring())).await;
}

#[tokio::test]
async fn what_others_wrote_on_the_object_stays() {
    let Some(world) = KubernetesWorld::new().await else {
        return;
    };
    let ring = world.ring();
    let first = taken(&RingTable::default(), &[0], 1);
    ring.compare_and_swap(None, first).await.unwrap();
    let labelled = Patch::Merge(json!({ "metadata": {
        "labels": { "team": "chat" },
        "annotations": { "note": "kept" },
    } }));
    let rings = world.rings();
    rings
        .patch("chat", &PatchParams::default(), &labelled)
        .await
        .unwrap();
    let current = read(&ring).await;
    let next = taken(&current.table, &[0], 2);
    let swapped = ring
        .compare_and_swap(Some(current.version.clone()), next.clone())
        .await;
    assert!(matches!(swapped, Ok(Swapped::Taken(_))));
    let object = rings.get("chat").await.unwrap();
    assert_eq!(object.labels()["team"], "chat");
    assert_eq!(object.annotations()["note"], "kept");
    assert_eq!(object.spec.number, 2);
    // A process that has read nothing itself, and one whose ring is deleted.
    let late = world
        .ring()
        .compare_and_swap(Some(current.version), next.clone())
        .await;
    assert_eq!(late.unwrap(), Swapped::Conflict);
    let version = read(&ring).await.version;
    rings.delete("chat", &Default::default()).await.unwrap();
    let lost = ring.compare_and_swap(Some(version), next).await;
    assert_eq!(lost.unwrap(), Swapped::Conflict);
}

#[tokio::test]
async fn a_table_that_lowers_an_epoch_is_refused_by_the_api_server_itself() {
    let Some(world) = KubernetesWorld::new().await else {
        return;
    };
    let ring = world.ring();
    let old = taken(&RingTable::default(), &[0], 1);
    let new = taken(&old, &[0], 2);
    ring.compare_and_swap(None, new).await.unwrap();
    // As a restored backup would, with the version of today.
    let version = read(&ring).await.version;
    let error = ring.compare_and_swap(Some(version), old).await.unwrap_err();
    let error = chain(&error);
    assert!(
        error.contains("swap the ring") && error.contains("number must not decrease"),
        "{error}"
    );
    assert_eq!(read(&ring).await.table.number(), 2);
}

#[tokio::test]
async fn a_ring_for_readers_that_know_more_is_neither_read_nor_changed() {
    let Some(world) = KubernetesWorld::new().await else {
        return;
    };
    let ring = world.ring();
    let first = taken(&RingTable::default(), &[0], 1);
    ring.compare_and_swap(None, first).await.unwrap();
    let before = read(&ring).await;
    let later = Patch::Merge(json!({ "spec": { "number": 2, "reader": 3 } }));
    let rings = world.rings();
    rings
        .patch("chat", &PatchParams::default(), &later)
        .await
        .unwrap();
    let error = chain(&ring.get().await.unwrap_err());
    assert!(error.contains("run a newer release"), "{error}");
    let next = taken(&before.table, &[0], 2);
    let swapped = ring.compare_and_swap(Some(before.version), next).await;
    assert_eq!(swapped.unwrap(), Swapped::Conflict);
    let kept = rings.get("chat").await.unwrap().spec;
    assert_eq!((kept.number, kept.reader), (2, 3));
}

#[tokio::test]
async fn a_full_ring_of_64_members_is_far_from_what_an_object_may_weigh() {
    let Some(world) = KubernetesWorld::new().await else {
        return;
    };
    let ring = world.ring();
    let mut table = RingTable::default();
    for owner in 0..64 {
        let slots: Vec<u16> = (0..SLOTS).filter(|slot| slot % 64 == owner).collect();
        table = taken(&table, &slots, u64::from(owner));
    }
    ring.compare_and_swap(None, table).await.unwrap();
    let object = world.rings().get("chat").await.unwrap();
    let bytes = serde_json::to_vec(&object).unwrap().len();
    println!("{bytes} bytes, of {} are managed fields", {
        serde_json::to_vec(&object.metadata.managed_fields)
            .unwrap()
            .len()
    });
    assert!(bytes < 400 << 10, "{bytes} bytes; etcd takes 1.5 MiB");
}

#[tokio::test]
async fn a_lease_tells_people_who_lives_and_goes_with_the_ring() {
    let Some(world) = KubernetesWorld::new().await else {
        return;
    };
    let ring = world.ring();
    let first = taken(&RingTable::default(), &[0], 1);
    ring.compare_and_swap(None, first).await.unwrap();
    ring.renew(presence("chat-0", 0xab, 1)).await.unwrap();
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), &world.namespace);
    let lease = leases.get("chat-0-00000000000000ab").await.unwrap();
    let spec = lease.spec.clone().unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some("00000000000000ab"));
    assert!(spec.renew_time.is_some());
    assert_eq!(lease.labels()["readstates.dev/ring"], "chat");
    let owner = &lease.owner_references()[0];
    let uid = world.rings().get("chat").await.unwrap().uid();
    assert_eq!(
        (owner.kind.as_str(), Some(&owner.uid)),
        ("ReadStateRing", uid.as_ref())
    );
    // A person labels the Lease: the next renewal succeeds all the same. So it does after a deletion.
    let label = Patch::Merge(json!({ "metadata": { "labels": { "seen": "yes" } } }));
    let name = lease.name_any();
    leases
        .patch(&name, &PatchParams::default(), &label)
        .await
        .unwrap();
    ring.renew(presence("chat-0", 0xab, 2)).await.unwrap();
    leases.delete(&name, &Default::default()).await.unwrap();
    ring.renew(presence("chat-0", 0xab, 3)).await.unwrap();
    assert_eq!(
        ring.presences().await.unwrap(),
        [presence("chat-0", 0xab, 3)]
    );
    // A process that does not know what it wrote last: an answer was lost.
    world
        .ring()
        .renew(presence("chat-0", 0xab, 4))
        .await
        .unwrap();
    assert_eq!(
        ring.presences().await.unwrap(),
        [presence("chat-0", 0xab, 4)]
    );
}

#[tokio::test]
async fn a_ring_that_was_deleted_takes_no_presences_with_it_and_is_filled_with_what_members_know() {
    let Some(world) = KubernetesWorld::new().await else {
        return;
    };
    let ring = world.ring();
    let known = taken(&RingTable::default(), &[0, 7], 1).on_line(Line::new(0x5eed));
    ring.compare_and_swap(None, known.clone()).await.unwrap();
    assert_eq!(*read(&ring).await.table, known);
    ring.renew(presence("chat-0", 1, 1)).await.unwrap();
    let rings = world.rings();
    rings.delete("chat", &Default::default()).await.unwrap();
    assert_eq!(ring.get().await.unwrap(), None);
    ring.renew(presence("chat-0", 1, 2)).await.unwrap();
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), &world.namespace);
    let name = "chat-0-0000000000000001";
    let lease = leases.get(name).await.unwrap();
    assert!(lease.owner_references().is_empty(), "nothing to go with");
    // The operator makes an empty one.
    let made = world
        .ring()
        .compare_and_swap(None, RingTable::empty(9))
        .await;
    assert!(matches!(made, Ok(Swapped::Taken(_))));
    let current = read(&ring).await;
    let mended = current
        .table
        .mended(known.configs(), known.members(), known.number());
    let mended = mended.unwrap().on_line(Line::new(7));
    let swapped = ring
        .compare_and_swap(Some(current.version), mended.clone())
        .await;
    assert!(matches!(swapped, Ok(Swapped::Taken(_))));
    assert_eq!(*read(&ring).await.table, mended);
    assert!(mended.configs().eq(known.configs()));
    ring.renew(presence("chat-0", 1, 3)).await.unwrap();
    let lease = leases.get(name).await.unwrap();
    let uid = rings.get("chat").await.unwrap().uid();
    assert_eq!(Some(&lease.owner_references()[0].uid), uid.as_ref());
}

#[tokio::test]
async fn an_api_server_that_is_away_makes_the_outcome_unknown_soon() {
    let config = Config::new("http://127.0.0.1:1".parse().unwrap());
    let ring = KubernetesRing::with_config(config, "default", "chat").unwrap();
    let began = std::time::Instant::now();
    let error = ring.get().await.unwrap_err();
    assert!(
        chain(&error).contains("could not be reached"),
        "{}",
        chain(&error)
    );
    let next = taken(&RingTable::default(), &[0], 1);
    assert!(ring.compare_and_swap(None, next).await.is_err());
    assert!(ring.renew(presence("chat-0", 1, 1)).await.is_err());
    assert!(ring.presences().await.is_err());
    assert!(
        began.elapsed().as_secs() < 60,
        "four calls of four seconds at most, on a machine that has time"
    );
}
