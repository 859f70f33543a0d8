//! Changes of the ring that the API server refuses.

use std::time::Instant;

use kube::api::PostParams;
use readstates_operator_api::{ReadStateRing, ReadStateRingSpec, RingMember};
use serde_json::{Value, json};

use crate::world::{World, with_world};

fn member(process: u64) -> RingMember {
    RingMember {
        name: format!("chat-{process}"),
        incarnation: format!("{process:016x}"),
        url: format!("http://chat-{process}:7400"),
        zone: None,
    }
}

/// Slots 0 to 9 at epoch 100, by turns of three processes.
fn ring(number: i64) -> ReadStateRingSpec {
    let mut spec = ReadStateRingSpec::empty(number);
    spec.members = (1..=3).map(member).collect();
    for slot in 0..10 {
        set(&mut spec, slot, 100, slot as i32 % 3, 99);
    }
    spec
}

fn set(spec: &mut ReadStateRingSpec, slot: usize, epoch: i64, owner: i32, inherits: i64) {
    spec.epochs[slot] = epoch;
    spec.owners[slot] = owner;
    spec.inherits[slot] = inherits;
}

async fn made(world: &World, spec: ReadStateRingSpec) -> ReadStateRing {
    let rings = world.api::<ReadStateRing>();
    let ring = ReadStateRing::new("chat", spec);
    rings.create(&PostParams::default(), &ring).await.unwrap()
}

/// Replaces the ring by one that differs from it as told; what the API server says to that.
async fn change(
    world: &World,
    change: impl FnOnce(&mut ReadStateRingSpec),
) -> Result<ReadStateRing, String> {
    let rings = world.api::<ReadStateRing>();
    let mut ring = rings.get("chat").await.unwrap();
    change(&mut ring.spec);
    let replaced = rings.replace("chat", &PostParams::default(), &ring).await;
    replaced.map_err(|error| error.to_string())
}

#[test]
fn an_epoch_never_falls_and_nothing_changes_under_one_epoch_or_number() {
    type Change = fn(&mut ReadStateRingSpec);
    let refusals: [(&str, Change); 13] = [
        ("number must not decrease", |r| r.number = 3),
        ("a change must increase the number", |r| {
            r.number = 4;
            r.epochs[7] = 101;
        }),
        ("an epoch must not decrease", |r| r.epochs[7] = 99),
        ("a change of owner must increase the epoch", |r| {
            r.owners[7] = 2
        }),
        // Nor may the one under that index be another process.
        ("a change of owner must increase the epoch", |r| {
            r.members[1].incarnation = "00000000000000ff".to_owned();
        }),
        ("a change of inherits must increase the epoch", |r| {
            r.inherits[7] = -1
        }),
        ("an epoch before its own", |r| set(r, 7, 101, 1, 101)),
        // It had an owner, and has one for ever.
        ("an epoch must not decrease", |r| set(r, 7, 0, -1, -1)),
        ("or -1 if the slot was never owned", |r| r.owners[7] = -1),
        ("an owner is an index into members", |r| r.owners[7] = 3),
        ("spec.epochs", |r| r.epochs.push(0)),
        ("spec.owners", |r| r.owners.truncate(1023)),
        ("Duplicate value", |r| {
            r.members[2].incarnation = r.members[1].incarnation.clone();
        }),
    ];
    with_world(async |world| {
        made(&world, ring(4)).await;
        for (words, wrong) in refusals {
            let refused = change(&world, |ring| {
                ring.number = 5;
                wrong(ring);
            });
            let error = refused.await.unwrap_err();
            assert!(error.contains(words), "{words}: {error}");
        }
    });
}

#[test]
fn what_members_do_is_accepted() {
    with_world(async |world| {
        // As the operator makes it, and the first members take.
        let empty = ReadStateRingSpec::empty(1);
        made(&world, empty).await;
        change(&world, |spec| *spec = ring(2)).await.unwrap();
        // Handed on.
        let handed = change(&world, |spec| {
            spec.number = 3;
            set(spec, 7, 101, 2, 100);
        });
        handed.await.unwrap();
        // Taken over by a process that was not listed, which puts others at other places.
        let taken = change(&world, |spec| {
            spec.number = 7;
            spec.members = vec![member(9), member(3), member(2)];
            for slot in 0..10 {
                match spec.owners[slot] {
                    0 => set(spec, slot, 200, 0, -1),
                    owner => spec.owners[slot] = 3 - owner,
                }
            }
        });
        taken.await.unwrap();
    });
}

#[test]
fn a_whole_ring_is_checked_in_time() {
    with_world(async |world| {
        let mut spec = ring(1);
        for slot in 0..1024 {
            set(&mut spec, slot, 100, 1, 99);
        }
        made(&world, spec).await;
        let begin = Instant::now();
        let all = change(&world, |spec| {
            spec.number = 2;
            for slot in 0..1024 {
                set(spec, slot, 101, 2, 100);
            }
        });
        all.await.unwrap();
        // A hand-off waits for it.
        assert!(begin.elapsed().as_secs() < 30, "{:?}", begin.elapsed());
    });
}

#[test]
fn of_two_that_swap_one_wins() {
    with_world(async |world| {
        let rings = world.api::<ReadStateRing>();
        let mut first = made(&world, ring(1)).await;
        let mut second = first.clone();
        first.spec.number = 2;
        second.spec.number = 2;
        let params = PostParams::default();
        rings.replace("chat", &params, &first).await.unwrap();
        let lost = rings.replace("chat", &params, &second).await.unwrap_err();
        assert!(matches!(lost, kube::Error::Api(status) if status.code == 409));
    });
}

#[test]
fn the_columns_say_when_a_slot_last_moved() {
    with_world(async |world| {
        let cells = async || {
            let url = format!(
                "/apis/readstates.dev/v1alpha1/namespaces/{}/readstaterings/chat",
                world.namespace
            );
            let table = http::Request::get(url)
                .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
                .body(Vec::new())
                .unwrap();
            let table: Value = world.client.request(table).await.unwrap();
            table["rows"][0]["cells"].clone()
        };
        made(&world, ring(1)).await;
        change(&world, |spec| spec.number = 2).await.unwrap();
        let cells = cells().await;
        assert_eq!((&cells[0], &cells[1]), (&json!("chat"), &json!(2)));
        let changed = cells[2].as_str().unwrap();
        assert!(changed.ends_with('s'), "{changed}");
    });
}
