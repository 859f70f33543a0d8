//! Superblocks, bitmaps, headers and signatures, read from any bytes whatever: nothing panics, and nothing that
//! was changed passes for what it was.

#![expect(
    clippy::unwrap_used,
    reason = "a test whose image cannot be read has failed"
)]

use std::{fs, path::Path};

use proptest::prelude::*;
use superdisk::{
    lineage::{self, Header, Machine, Slots, State},
    spec::{FilesystemKind, VolumeUid},
    superblock::{self, Role, Signature, Uuid},
};

/// The first 16 KiB of a device that mdadm 4.2 on Linux 6.1 wrote, without what is zero.
fn image(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/mdadm")
        .join(name);
    let mut bytes = vec![0; 16 << 10];
    for line in fs::read_to_string(path).unwrap().lines() {
        let (at, hex) = line.split_once(' ').unwrap();
        let at = usize::from_str_radix(at, 16).unwrap();
        for index in 0..hex.len() / 2 {
            bytes[at + index] = u8::from_str_radix(&hex[2 * index..2 * index + 2], 16).unwrap();
        }
    }
    bytes
}

fn durable() -> superblock::Superblock {
    superblock::parse(&image("durable")[4096..])
        .unwrap()
        .unwrap()
}

#[test]
fn what_mdadm_wrote_on_a_durable_leg_is_read() {
    let found = durable();
    assert_eq!(
        (found.level, found.raid_disks, found.size),
        (1, 2, 2 * 254_976)
    );
    assert_eq!(found.short_name(), "sd1-d996ce1e07092935");
    // The fast leg came as the third device: index 1 is the one that was missing when it was made.
    let roles = [found.role(), found.role_of(1), found.role_of(2)];
    assert_eq!(roles, [Role::Slot(0), Role::Spare, Role::Slot(1)]);
    assert!(found.write_mostly && found.bad_block_log == 0 && found.recovery_offset.is_none());
    assert_eq!((found.data_offset, found.bitmap_at()), (2048, Some(8192)));
    let bitmap = superblock::parse_bitmap(&image("durable")[8192..]).unwrap();
    assert_eq!(bitmap.array, found.array);
    assert!(bitmap.events <= found.events && bitmap.events_cleared <= found.events);
}

#[test]
fn what_mdadm_wrote_on_a_local_device_and_inside_the_stripe_is_read() {
    let found = superblock::parse(&image("local")[4096..]).unwrap().unwrap();
    assert_eq!((found.level, found.raid_disks, found.chunk), (0, 2, 1024));
    assert_eq!(found.short_name(), "sd0-d996ce1e07092935");
    assert_eq!(found.role(), Role::Slot(0));
    let inside = superblock::parse(&image("inside")[4096..])
        .unwrap()
        .unwrap();
    assert_eq!(
        (inside.array, inside.size),
        (durable().array, durable().size)
    );
    assert_eq!(inside.role(), Role::Slot(1));
    assert!(!inside.write_mostly);
}

#[test]
fn every_changed_byte_of_a_superblock_is_noticed() {
    let bytes = image("durable")[4096..8192].to_vec();
    let end = 256 + 2 * durable().roles.len();
    for at in 4..end {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        assert!(superblock::parse(&changed).is_err(), "byte {at}");
    }
}

#[test]
fn what_else_may_be_on_a_disk_is_called_by_its_name() {
    let put = |at: usize, bytes: &[u8]| {
        let mut head = vec![0; 1 << 20];
        head[at..at + bytes.len()].copy_from_slice(bytes);
        head
    };
    let blank = vec![0; 1 << 20];
    for (head, tail, want) in [
        (
            put(0, b"XFSB"),
            &blank,
            Signature::Filesystem(FilesystemKind::Xfs),
        ),
        (put(65_600, b"_BHRfS_M"), &blank, Signature::Btrfs),
        (put(512, b"LABELONE"), &blank, Signature::Lvm),
        (put(0, b"LUKS\xba\xbe"), &blank, Signature::Luks),
        (put(4086, b"SWAPSPACE2"), &blank, Signature::Swap),
        (put(512, b"EFI PART"), &blank, Signature::Gpt),
        (
            blank.clone(),
            &put((1 << 20) - 512, b"EFI PART"),
            Signature::Gpt,
        ),
        (
            blank.clone(),
            &put((1 << 20) - 8192, &[0xfc, 0x4e, 0x2b, 0xa9]),
            Signature::OtherMd,
        ),
        (
            blank.clone(),
            &put((1 << 20) - 65_536, &[0xfc, 0x4e, 0x2b, 0xa9]),
            Signature::OtherMd,
        ),
        (put(510, &[0x55, 0xaa]), &blank, Signature::Mbr),
        (put(777, b"x"), &blank, Signature::Data),
        (blank.clone(), &put(5, b"x"), Signature::Data),
    ] {
        let found = superblock::foreign(&head, tail);
        assert_eq!(found, Some(want));
    }
    assert_eq!(superblock::foreign(&blank, &blank), None);
}

fn header() -> impl Strategy<Value = Header> {
    let point = (any::<u64>(), any::<u64>(), any::<[u8; 16]>());
    let state = prop_oneof![
        Just(State::Creating),
        Just(State::InUse),
        Just(State::Clean)
    ];
    let name = "[a-z0-9._-]{1,64}";
    let snapshot = proptest::option::of(name);
    let machine = proptest::option::of((1..u64::MAX, any::<u32>()));
    (name, state, point, any::<[u8; 16]>(), snapshot, machine).prop_map(
        |(volume, state, point, fast, snapshot, machine)| {
            let volume: VolumeUid = volume.parse().unwrap();
            let mut header = Header::first(volume, Uuid(point.2), Uuid(fast));
            (header.state, header.fast) = (state, Uuid(fast));
            (header.point.generation, header.point.beat) = (point.0, point.1);
            header.snapshot = snapshot.map(|id| id.parse().unwrap());
            header.machine = machine.map(|(id, devices)| Machine { id, devices });
            header
        },
    )
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..5000)) {
        let _ = superblock::parse(&bytes);
        let _ = superblock::parse_bitmap(&bytes);
        let _ = superblock::filesystem(&bytes);
        let _ = superblock::foreign(&bytes, &bytes);
        prop_assert!(!matches!(lineage::read(&bytes), Slots::Header(_)));
    }

    #[test]
    fn a_superblock_with_any_fields_is_read_without_panic(
        changes in proptest::collection::vec((8_usize..4096, any::<u8>()), 0..40),
        len in 0_usize..4097,
    ) {
        let mut bytes = image("durable")[4096..8192].to_vec();
        for (at, value) in changes {
            bytes[at] = value;
        }
        bytes.truncate(len);
        if let Ok(Some(found)) = superblock::parse(&bytes) {
            let _ = (found.role(), found.bitmap_at(), found.short_name(), lineage::region_at(&found));
        }
    }

    #[test]
    fn any_header_is_read_as_it_was_written_and_never_when_changed(
        header in header(), at in 0_usize..212, bit in 0_u8..8,
    ) {
        let mut region = vec![0; lineage::REGION_BYTES];
        let slot = header.slot() * lineage::SLOT_BYTES;
        region[slot..slot + lineage::SLOT_BYTES].copy_from_slice(&header.encode());
        prop_assert_eq!(lineage::read(&region), Slots::Header(header));
        region[slot + at] ^= 1 << bit;
        prop_assert!(!matches!(lineage::read(&region), Slots::Header(_)));
    }
}
