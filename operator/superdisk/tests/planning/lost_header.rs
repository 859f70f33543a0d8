//! A header that cannot be read, of a durable leg that is served: written anew only where the fast leg proves what it said.

use superdisk::{
    inventory::{Inventory, Tried},
    lineage::{Header, State},
    model::Seen,
    plan::{header_by_fast_leg, plan},
    superblock::Uuid,
    verdict::{Verdict, verdict},
};

use crate::{
    node::node,
    situations::{spec, used},
    world::{DURABLE, Kind, MIB, MemberState, World},
};

const REGION: u64 = MIB - 8192;

type Change = fn(&mut World);
type Rewrite = fn(Header) -> Header;

fn observe(world: &World) -> Inventory {
    node(world).observe(&spec(), &Tried::default())
}

fn by_fast_leg(world: &World) -> Option<Header> {
    header_by_fast_leg(&spec(), &observe(world))
}

fn lose_headers(world: &mut World) {
    world.disk(DURABLE).bad = vec![REGION / 4096, REGION / 4096 + 1];
}

/// In use, and neither of the durable leg's headers can be read.
fn lost() -> World {
    let mut world = used();
    lose_headers(&mut world);
    world
}

fn header_of(world: &World) -> Header {
    match observe(world).durable.content {
        Seen::Present(content) => match content.lineage {
            Seen::Present(header) => header,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn put(world: &mut World, leg: &str, header: &Header) {
    let at = REGION + 4096 * header.slot() as u64;
    world.poke(leg, at, &header.encode());
}

/// Both of the fast leg's headers say something else.
fn rewrite_copy(world: &mut World, rewrite: Rewrite) {
    let mut intact = world.clone();
    intact.disk(DURABLE).bad.clear();
    let header = rewrite(header_of(&intact));
    let leg = stripe(world);
    put(world, &leg, &header);
    put(world, &leg, &header.next());
}

fn judge(inventory: &Inventory) -> Verdict {
    let (Seen::Present(durable), Seen::Present(fast)) =
        (&inventory.durable.content, &inventory.fast)
    else {
        panic!("{inventory:?}");
    };
    verdict(&spec().volume, durable, fast.stripe, &fast.inside)
}

fn stripe(world: &World) -> String {
    world.mirror().unwrap().2.unwrap().name
}

#[test]
fn the_fast_leg_proves_what_a_lost_header_said_in_a_generation_that_none_had() {
    let read = used();
    assert_eq!(
        by_fast_leg(&read),
        None,
        "the durable leg speaks for itself"
    );
    let header = header_of(&read);
    let anew = by_fast_leg(&lost()).unwrap();
    let mut same = anew.clone();
    same.point = header.point;
    assert_eq!(same, header);
    assert_eq!(anew.point.session, header.point.session);
    // The agent may have been killed between both legs, with a snapshot's header on the durable leg alone.
    let marked = header.marked("nightly".parse().unwrap());
    assert!(anew.point.generation > marked.point.generation);
    assert!(anew.point.beat > marked.point.beat);
}

#[test]
fn nothing_else_proves_it() {
    let cases: [(&str, Change); 7] = [
        ("it does not run", World::power_cut),
        ("it is not mounted", |world| world.mounts.clear()),
        ("it is mounted elsewhere", |world| {
            world.mounts[0].1 = "/mnt".into()
        }),
        ("it is lost", World::lose_durable),
        ("its fast leg has failed", |world| {
            let mirror = world.mirror().unwrap().0;
            let kind = &mut world.arrays.get_mut(&mirror).unwrap().kind;
            if let Kind::Mirror(_, Some(fast)) = kind {
                fast.state = MemberState::Faulty;
            }
        }),
        ("its fast leg is out", |world| {
            let mirror = world.mirror().unwrap().0;
            let kind = &mut world.arrays.get_mut(&mirror).unwrap().kind;
            if let Kind::Mirror(_, fast) = kind {
                *fast = None;
            }
        }),
        ("its fast leg has no header", |world| {
            let leg = stripe(world);
            for at in [REGION, REGION + 4096] {
                world.poke(&leg, at, &[0; 4096]);
            }
        }),
    ];
    for (name, change) in cases {
        let mut world = lost();
        change(&mut world);
        assert_eq!(by_fast_leg(&world), None, "{name}");
    }
    let rewrites: [(&str, Rewrite); 4] = [
        ("another boot", |header| Header {
            boot: Uuid([0x77; 16]),
            ..header.next()
        }),
        ("an orderly end", |header| header.next_in(State::Clean)),
        ("another stripe", |header| {
            header.admitting(Uuid([0x55; 16]))
        }),
        ("another volume", |header| Header {
            volume: "pvc-2".parse().unwrap(),
            ..header.next()
        }),
    ];
    for (name, rewrite) in rewrites {
        let mut world = lost();
        rewrite_copy(&mut world, rewrite);
        assert_eq!(by_fast_leg(&world), None, "{name}");
    }
    let mut world = lost();
    rewrite_copy(&mut world, |header| header.next());
    assert!(
        by_fast_leg(&world).is_some(),
        "the rewrites count, not the writing"
    );
}

/// Wherever it ends: after the first of both headers on the durable leg, and with or without the fast leg's.
#[test]
fn after_it_was_written_the_next_start_copies_only_what_changed() {
    for (beats, with_fast) in [(1, false), (1, true), (2, true)] {
        let mut world = lost();
        let mut header = by_fast_leg(&world).unwrap();
        let leg = stripe(&world);
        for _ in 0..beats {
            header = header.next();
            put(&mut world, DURABLE, &header);
            if with_fast {
                put(&mut world, &leg, &header);
            }
        }
        assert_eq!(header_of(&world), header);
        world.power_cut();
        let inventory = observe(&world);
        assert_eq!(judge(&inventory), Verdict::ReAdd, "{beats} {with_fast}");
        let planned = plan(&spec(), &inventory);
        assert!(
            matches!(planned, superdisk::action::Decision::Do(_)),
            "{planned:?}"
        );
    }
}

/// A bad sector, or a header that was torn: in either slot of either leg.
#[test]
fn one_slot_that_is_lost_keeps_no_pod_from_starting_and_gives_up_no_data() {
    for on_durable in [true, false] {
        for slot in [0, 1] {
            let mut world = used();
            let leg = if on_durable {
                DURABLE.to_owned()
            } else {
                stripe(&world)
            };
            for _ in 0..2 {
                let header = header_of(&world).next();
                put(&mut world, DURABLE, &header);
                let fast = stripe(&world);
                put(&mut world, &fast, &header);
            }
            world.poke(&leg, REGION + 4096 * slot, &[0xa5; 4096]);
            world.power_cut();
            let inventory = observe(&world);
            let judged = judge(&inventory);
            assert!(
                matches!(judged, Verdict::ReAdd | Verdict::Full(_)),
                "{leg} {slot}: {judged:?}"
            );
            let planned = plan(&spec(), &inventory);
            assert!(
                matches!(planned, superdisk::action::Decision::Do(_)),
                "{leg} {slot}: {planned:?}"
            );
        }
    }
}

/// The fast leg took writes alone after it was admitted, and its header of that start is lost: the one before it must not
/// make it look like a leg of the past.
#[test]
fn a_fast_leg_that_is_ahead_is_not_given_up_for_a_header_that_it_has_lost() {
    for admitted in [true, false] {
        let mut world = used();
        let before = header_of(&world);
        let opened = before.opened(Uuid([9; 16]), before.boot);
        let newest = if admitted {
            opened.admitting(before.fast)
        } else {
            opened.next()
        };
        world.lose_durable();
        put(&mut world, DURABLE, &newest.next());
        put(&mut world, DURABLE, &newest.next().next());
        world.power_cut();
        let judged = judge(&observe(&world));
        assert_eq!(matches!(judged, Verdict::Ahead(_)), admitted, "{judged:?}");
    }
}
