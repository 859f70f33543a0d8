use std::cell::Cell;

use super::*;
use crate::{
    agent::state::tests::spec,
    inventory::{Array, ArrayState, Disk, Member, Sync, Tried},
    model::{DeviceNumber, Kernel},
    superblock::{Role, Superblock, Uuid},
};

const BOOT: Uuid = Uuid([2; 16]);

#[test]
fn there_is_no_beat_while_a_plan_is_done_and_there_are_some_before_and_after() {
    let beats = Beats::default();
    assert!(beats.unless_planning().is_some());
    let planning = beats.planning();
    assert!(beats.unless_planning().is_none());
    drop(planning);
    assert!(beats.unless_planning().is_some());
}

#[test]
fn without_a_header_that_was_read_nothing_is_written() {
    let facts = crate::heal::tests::healthy();
    let unread = || Err(BeatError::Unread);
    let written = Beats::default().write(Path::new("/nowhere"), &facts, Header::next, &unread);
    assert!(matches!(written, Err(BeatError::Unread)));
}

fn identity() -> Identity {
    Identity {
        path: "/dev/sdb".into(),
        name: "sdb".to_owned(),
        number: DeviceNumber { major: 8, minor: 0 },
        bytes: 1 << 30,
        serial: None,
        wwid: None,
        sequence: None,
    }
}

fn header() -> Header {
    Header::first("pvc-1".parse().unwrap(), Uuid([1; 16]), BOOT)
}

fn headers(is_anew: bool) -> Headers {
    Headers {
        header: header(),
        is_anew,
        has_bad_slot: false,
        durable: (identity(), 4096),
        fast: None,
    }
}

#[test]
fn a_header_in_place_of_a_lost_one_counts_once_the_disk_gives_it_back() {
    let beats = Beats::default();
    beats.learn(&|| Ok(headers(true))).unwrap();
    assert_eq!(beats.generation(), None);
    beats.learn(&|| Ok(headers(false))).unwrap();
    assert_eq!(beats.generation(), Some(1));
    let written = headers(true).header;
    assert!(headers(false).give_back(&written));
    assert!(!headers(true).give_back(&written), "it is still lost");
    assert!(!headers(false).give_back(&written.next()), "one before");
}

/// A mirror that runs from the durable leg alone.
fn inventory(header: Header) -> Inventory {
    let durable = Disk {
        path: "/dev/sdb".into(),
        node: Seen::Absent,
        identity: Some(identity()),
        model: None,
        wait_millis: None,
        content: Seen::Present(Content {
            superblock: Seen::Present(superblock()),
            bitmap: Seen::Absent,
            marked: Seen::Absent,
            lineage: Seen::Present(header),
            foreign: None,
            data: Seen::Absent,
        }),
    };
    Inventory {
        kernel: Kernel {
            release: "6.1.0".to_owned(),
            system: None,
            raid0: Seen::Absent,
            raid1: Seen::Absent,
        },
        boot: BOOT,
        random: Uuid([9; 16]),
        durable,
        local: Vec::new(),
        fast: Seen::Absent,
        legs: Vec::new(),
        arrays: vec![mirror()],
        twins: Vec::new(),
        mounts: Vec::new(),
        node_mounts: Vec::new(),
        tried: Tried::default(),
    }
}

fn superblock() -> Superblock {
    Superblock {
        array: Uuid([3; 16]),
        name: "any:sd1-pvc-1".to_owned(),
        level: 1,
        size: 1 << 20,
        chunk: 0,
        raid_disks: 2,
        bitmap_offset: Some(8),
        data_offset: 2048,
        data_size: 1 << 20,
        recovery_offset: None,
        device: 0,
        member: Uuid([4; 16]),
        write_mostly: true,
        bad_block_log: 8,
        events: 1,
        resync_offset: None,
        roles: vec![Role::Slot(0)],
    }
}

fn mirror() -> Array {
    Array {
        name: "md101".to_owned(),
        number: DeviceNumber {
            major: 9,
            minor: 101,
        },
        level: "raid1".to_owned(),
        state: ArrayState::Running,
        raid_disks: 2,
        bytes: 1 << 29,
        component_kib: 1 << 19,
        sync: Sync::Idle,
        sync_progress: None,
        unclean: false,
        members: vec![Member {
            name: "sdb".to_owned(),
            number: Seen::Present(identity().number),
            slot: Some(0),
            faulty: false,
            in_sync: true,
            write_mostly: true,
            errors: 0,
            bad_sectors: Seen::Present(0),
        }],
        holders: Vec::new(),
        knobs: Vec::new(),
    }
}

#[test]
fn a_header_of_another_boot_is_not_counted_on_from() {
    let found = Headers::of(&spec(), &inventory(header())).unwrap();
    assert_eq!((found.header, found.is_anew), (header(), false));
    let earlier = Header {
        boot: Uuid([7; 16]),
        ..header()
    };
    let refused = Headers::of(&spec(), &inventory(earlier));
    assert!(
        matches!(refused, Err(BeatError::AnotherBoot)),
        "{refused:?}"
    );
}

#[test]
fn a_slot_that_cannot_be_written_does_not_keep_the_other_from_being_written() {
    let broken = || BeatError::Io(io::Error::other("EIO"));
    for bad in [0, 1] {
        for error in [broken, || BeatError::NotKept] {
            let mut known = header();
            for _ in 0..4 {
                let write = |header: &Header| match header.slot() {
                    slot if slot == bad => Err(error()),
                    _ => Ok(()),
                };
                let (written, failed) = in_either_slot(&known, Header::next, &write).unwrap();
                assert_eq!(written.slot(), 1 - bad);
                assert!(written.point > known.point);
                assert_eq!(failed.is_some(), known.next().slot() == bad);
                known = written;
            }
        }
    }
    // A snapshot's header is one generation on, whichever slot it is in.
    let marked = |header: &Header| header.marked("nightly".parse().unwrap());
    let write = |header: &Header| match header.slot() {
        1 => Err(broken()),
        _ => Ok(()),
    };
    let (written, _) = in_either_slot(&header(), marked, &write).unwrap();
    assert_eq!(written.point.generation, header().point.generation + 1);
    assert_eq!(written.snapshot, marked(&header()).snapshot);
}

#[test]
fn a_disk_that_takes_neither_slot_and_one_that_has_changed_are_told() {
    let tries = Cell::new(0);
    let fails = |error: fn() -> BeatError| {
        tries.set(0);
        let write = |_: &Header| {
            tries.set(tries.get() + 1);
            Err(error())
        };
        in_either_slot(&header(), Header::next, &write).unwrap_err()
    };
    let broken = fails(|| BeatError::Io(io::Error::other("EIO")));
    assert!(matches!(broken, BeatError::Io(_)));
    assert_eq!(tries.get(), 2);
    let changed = fails(|| BeatError::AnotherDevice);
    assert!(matches!(changed, BeatError::AnotherDevice));
    assert_eq!(tries.get(), 1, "nothing goes to a disk that is not ours");
}
