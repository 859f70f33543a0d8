use super::*;
use crate::{
    agent::state::tests::spec,
    inventory::{Disk, Tried},
    md::{Array, ArrayState, Flags, Member, SyncAction},
    model::{DeviceNumber, Kernel},
    superblock::{Role, Superblock, Uuid},
};

const BOOT: Uuid = Uuid([2; 16]);

#[test]
fn nothing_but_a_beat_writes_headers_while_a_plan_is_done() {
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
        durable: (identity(), 4096),
        fast: None,
        durable_slots: BadSlots::default(),
        fast_slots: BadSlots::default(),
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

fn known(header: Header) -> Beats {
    let beats = Beats::default();
    let found = Headers {
        header,
        ..headers(false)
    };
    beats.learn(&|| Ok(found.clone())).unwrap();
    beats
}

fn in_use() -> Header {
    header().opened(Uuid([5; 16]), BOOT)
}

/// Has a header of a plan written; what was written, in the end.
fn planned(beats: &Beats, region: u64, header: &Header, fails: bool) -> Header {
    let identity = identity();
    let place = Place {
        durable: &identity,
        region,
    };
    let last = Mutex::new(None);
    let written = beats.in_turn(place, header, &|header| {
        *last.lock().unwrap() = Some(header.clone());
        if fails {
            return Err(io::Error::other("EIO"));
        }
        Ok(None)
    });
    assert_eq!(written.is_err(), fails);
    last.into_inner().unwrap().unwrap()
}

fn newest(beats: &Beats) -> Option<Header> {
    let headers = beats.headers();
    headers.as_ref().map(|known| known.header.clone())
}

#[test]
fn a_plans_header_follows_the_beats_that_came_after_it_was_decided_and_they_count_on_from_it() {
    let decided = in_use().admitting(Uuid([6; 16]));
    let now = in_use().next().next().next();
    let beats = known(now.clone());
    let written = planned(&beats, 4096, &decided, false);
    assert_eq!(written, now.admitting(Uuid([6; 16])));
    assert_eq!(newest(&beats), Some(written));
    assert_eq!(beats.generation(), Some(2));
}

#[test]
fn a_plans_header_without_beats_since_is_written_as_it_was_decided() {
    let decided = in_use().admitting(Uuid([6; 16]));
    let beats = known(in_use());
    assert_eq!(planned(&beats, 4096, &decided, false), decided);
    assert_eq!(planned(&Beats::default(), 4096, &decided, false), decided);
}

#[test]
fn after_a_plans_header_that_failed_or_went_elsewhere_it_is_read_again_what_to_count_on_from() {
    let decided = in_use().admitting(Uuid([6; 16]));
    for (region, fails) in [(4096, true), (8192, false)] {
        let beats = known(in_use());
        planned(&beats, region, &decided, fails);
        assert_eq!((newest(&beats), beats.generation()), (None, None));
    }
}

#[test]
fn beside_a_plan_there_are_beats_of_a_volume_in_use_whose_header_is_known() {
    let nowhere = Path::new("/nowhere");
    let beat = |beats: &Beats| beats.write_beside_plan(nowhere);
    assert_eq!(beat(&Beats::default()).unwrap(), None);
    // It is being created.
    assert_eq!(beat(&known(header())).unwrap(), None);
    let lost = Beats::default();
    lost.learn(&|| Ok(headers(true))).unwrap();
    assert_eq!(beat(&lost).unwrap(), None);
    // It would have been written, had the disk been there.
    let tried = beat(&known(in_use()));
    assert!(matches!(tried, Err(BeatError::AnotherDevice)), "{tried:?}");
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
        machine: None,
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
        sync: Some(SyncAction::Idle),
        sync_progress: None,
        sync_kib_per_second: 0,
        sync_ends_early: false,
        mismatch_sectors: 0,
        unclean: false,
        members: vec![Member {
            name: "sdb".to_owned(),
            number: Seen::Present(identity().number),
            slot: Some(0),
            flags: Flags::from_words("in_sync,write_mostly"),
            filled_sectors: None,
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
fn a_slot_counts_as_broken_until_it_takes_a_header() {
    let mut slots = BadSlots::default();
    let refused = || Some("EIO".to_owned());
    let mut said = Vec::new();
    for (slot, refused) in [
        (0, None),
        (1, refused()),
        (0, None),
        (1, refused()),
        (1, None),
    ] {
        slots.note("durable", slot, refused);
        said.push(slots.has_broken());
    }
    assert_eq!(said, [false, true, true, true, false]);
    // A header for the other slot that went to this one shows that this one takes headers.
    slots.note("durable", 0, refused());
    slots.note("durable", 1, refused());
    slots.note("durable", 1, None);
    assert!(!slots.has_broken());
}

#[test]
fn a_disk_that_has_changed_gets_no_header_into_the_other_slot_either() {
    let of_slot = [BeatError::Io(io::Error::other("EIO")), BeatError::NotKept];
    assert!(of_slot.iter().all(BeatError::is_of_slot));
    let of_disk = [
        BeatError::Unread,
        BeatError::AnotherDevice,
        BeatError::AnotherBoot,
        BeatError::Fast(io::Error::other("EIO")),
    ];
    assert!(!of_disk.iter().any(BeatError::is_of_slot));
}
