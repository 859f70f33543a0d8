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

/// The same ring, with backups of slots 0 to 4: the process after the owner.
fn backed(number: i64) -> ReadStateRingSpec {
    let mut spec = ring(number);
    spec.backups = vec![-1; 1024];
    for slot in 0..5 {
        spec.backups[slot] = (slot as i32 + 1) % 3;
    }
    spec.reader = 2;
    spec
}

#[test]
fn a_backup_changes_with_the_epoch_alone_and_keeps_out_members_that_do_not_know_it() {
    type Change = fn(&mut ReadStateRingSpec);
    let refusals: [(&str, Change); 12] = [
        ("a change of backup must increase the epoch", |r| {
            r.backups[7] = 2
        }),
        ("a change of backup must increase the epoch", |r| {
            r.backups[1] = -1
        }),
        // As a program writes the ring back that does not know the field.
        ("a change of backup must increase the epoch", |r| {
            (r.backups, r.reader) = (Vec::new(), 1);
            set(r, 9, 101, 1, 100);
        }),
        // Nor may the one under that index be another process.
        ("a change of backup must increase the epoch", |r| {
            r.members.push(member(4));
            r.backups[0] = 3;
        }),
        ("reader must be at least 2", |r| r.reader = 1),
        ("a backup is an index into members", |r| {
            set(r, 7, 101, 1, 100);
            r.backups[7] = 3;
        }),
        // Not the owner itself.
        ("other than the owner's", |r| {
            set(r, 7, 101, 1, 100);
            r.backups[7] = 1;
        }),
        // A slot that was never owned.
        ("-1 if the slot has none", |r| r.backups[20] = 1),
        ("spec.backups", |r| r.backups.truncate(1023)),
        ("spec.backups", |r| r.backups[7] = -2),
        ("spec.backups", |r| r.backups[7] = 1024),
        ("spec.reader", |r| r.reader = 0),
    ];
    with_world(async |world| {
        made(&world, backed(4)).await;
        for (words, wrong) in refusals {
            let refused = change(&world, |ring| {
                ring.number = 5;
                wrong(ring);
            });
            let error = refused.await.unwrap_err();
            assert!(error.contains(words), "{words}: {error}");
        }
        let kept = world.api::<ReadStateRing>().get("chat").await.unwrap();
        assert_eq!(kept.spec, backed(4), "nothing of it was stored");
    });
}

#[test]
fn backups_come_stay_and_go() {
    with_world(async |world| {
        made(&world, ring(4)).await;
        // Named by the owner, under an epoch of its own.
        let named = change(&world, |spec| {
            *spec = backed(5);
            for slot in 0..5 {
                set(spec, slot, 101, slot as i32 % 3, 100);
            }
        });
        let named = named.await.unwrap().spec;
        assert_eq!((named.reader, named.backups[1]), (2, 2));
        // Another slot moves, and the members are listed in another order.
        let moved = change(&world, |spec| {
            spec.number = 6;
            spec.members.reverse();
            let other = |place: &i32| if *place < 0 { -1 } else { 2 - place };
            spec.owners = spec.owners.iter().map(other).collect();
            spec.backups = spec.backups.iter().map(other).collect();
            set(spec, 7, 102, 0, 100);
        });
        moved.await.unwrap();
        // One is promoted, and owns the slot without a backup.
        let promoted = change(&world, |spec| {
            spec.number = 7;
            let backup = std::mem::replace(&mut spec.backups[1], -1);
            set(spec, 1, 102, backup, 101);
        });
        promoted.await.unwrap();
        // The last one is dropped, and every release may read the ring again.
        let dropped = change(&world, |spec| {
            spec.number = 8;
            for slot in [0, 2, 3, 4] {
                let owner = spec.owners[slot];
                set(spec, slot, 102, owner, 101);
            }
            (spec.backups, spec.reader) = (Vec::new(), 1);
        });
        let dropped = dropped.await.unwrap();
        let stored = serde_json::to_value(dropped.spec).unwrap();
        assert_eq!((stored.get("backups"), stored.get("reader")), (None, None));
        // A later release keeps out all that know less than it.
        let later = change(&world, |spec| (spec.number, spec.reader) = (9, 3));
        assert_eq!(later.await.unwrap().spec.reader, 3);
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
        let mut spec = backed(1);
        for slot in 0..1024 {
            set(&mut spec, slot, 100, 1, 99);
        }
        spec.backups = vec![0; 1024];
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
