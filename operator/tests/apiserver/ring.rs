//! What the API server refuses to be done to the ring.

use std::time::Instant;

use kube::api::PostParams;
use readstates_operator_api::{ReadStateRing, ReadStateRingSpec, RingMember, RingSlot};
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
    let slot = |n: i32| RingSlot {
        epoch: 100,
        owner: n % 3,
        inherits: Some(99),
        backup: None,
    };
    ReadStateRingSpec {
        number,
        members: (1..=3).map(member).collect(),
        slots: (0..10).map(|n| (n.to_string(), slot(n))).collect(),
    }
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

fn slot<'a>(spec: &'a mut ReadStateRingSpec, number: &str) -> &'a mut RingSlot {
    spec.slots.get_mut(number).unwrap()
}

#[test]
fn an_epoch_never_falls_and_nothing_changes_under_one_epoch_or_number() {
    type Change = fn(&mut ReadStateRingSpec);
    let refusals: [(&str, Change); 11] = [
        ("number only grows", |r| r.number = 3),
        ("a change needs a higher number", |r| {
            r.number = 4;
            slot(r, "7").epoch = 101;
        }),
        ("an epoch never falls", |r| slot(r, "7").epoch = 99),
        ("another owner needs a higher epoch", |r| {
            slot(r, "7").owner = 2
        }),
        // Nor may the one under that index be another process.
        ("another owner needs a higher epoch", |r| {
            r.members[1].incarnation = "00000000000000ff".to_owned();
        }),
        ("another inheritance needs a higher epoch", |r| {
            slot(r, "7").inherits = None
        }),
        ("inherits names an epoch before", |r| {
            let slot = slot(r, "7");
            slot.epoch = 101;
            slot.inherits = Some(101);
        }),
        ("a slot never disappears", |r| {
            r.slots.remove("7");
        }),
        ("owner is an index into members", |r| slot(r, "7").owner = 3),
        ("the numbers 0 to 1023", |r| {
            let more = slot(r, "7").clone();
            r.slots.insert("1024".to_owned(), more);
        }),
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
        let empty = ReadStateRingSpec {
            number: 1,
            members: Vec::new(),
            slots: [].into(),
        };
        made(&world, empty).await;
        change(&world, |spec| *spec = ring(2)).await.unwrap();
        // Handed on.
        let handed = change(&world, |spec| {
            spec.number = 3;
            let slot = slot(spec, "7");
            (slot.epoch, slot.owner, slot.inherits) = (101, 2, Some(100));
        });
        handed.await.unwrap();
        // Taken over by a process that was not listed, which puts others at other places.
        let taken = change(&world, |spec| {
            spec.number = 7;
            spec.members = vec![member(9), member(3), member(2)];
            for slot in spec.slots.values_mut() {
                match slot.owner {
                    0 => (slot.epoch, slot.inherits) = (200, None),
                    owner => slot.owner = 3 - owner,
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
        let one = slot(&mut spec, "7").clone();
        spec.slots = (0..1024).map(|n| (n.to_string(), one.clone())).collect();
        made(&world, spec).await;
        let begin = Instant::now();
        let all = change(&world, |spec| {
            spec.number = 2;
            for slot in spec.slots.values_mut() {
                slot.epoch += 1;
                slot.owner = 2;
            }
        });
        all.await.unwrap();
        // A hand-off waits for it. (It takes some 60 ms where nothing else runs.)
        assert!(begin.elapsed().as_secs() < 5, "{:?}", begin.elapsed());
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
