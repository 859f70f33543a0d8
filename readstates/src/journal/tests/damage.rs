//! What a start makes of files that are damaged, missing, newer or older than the store.

use std::{fs, sync::atomic::Ordering};

use super::{JournalWorld, ack, config, recovered, world, world_of};
use crate::{
    codec,
    journal::{
        Journal, JournalConfig, JournalError,
        folder::Folder,
        segment::{HEAD, put_frame},
    },
    store::{MemoryStore, Store},
};

/// A journal of three frames in one file, as it is on the disk.
async fn three_frames(folder: &std::path::Path) -> JournalWorld {
    let world = world();
    for user in 1..=3 {
        world.acknowledged(user, ack(user)).await;
    }
    world.disk.cut(folder, 0);
    world
}

#[tokio::test]
async fn a_damaged_frame_is_refused_and_nothing_changes_until_that_is_accepted() {
    let (folder, store) = (tempfile::tempdir().unwrap(), MemoryStore::default());
    let world = three_frames(folder.path()).await;
    let file = Folder::open(folder.path()).unwrap().file(1);
    let mut bytes = fs::read(&file).unwrap();
    bytes[HEAD + 50] ^= 1;
    fs::write(&file, &bytes).unwrap();
    let refused = recovered(folder.path(), &store)
        .await
        .unwrap_err()
        .to_string();
    assert!(refused.contains("from byte 64 to"), "{refused}");
    assert!(refused.contains("--accept-journal-damage"), "{refused}");
    assert_eq!(fs::read(&file).unwrap(), bytes, "nothing changed");
    assert!(store.load(2).await.unwrap().is_none(), "nothing changed");

    let accepting = JournalConfig {
        accept_damage: true,
        ..config(folder.path())
    };
    Journal::open(&accepting, &store, 8).await.unwrap();
    assert!(store.load(1).await.unwrap().is_none(), "this one was lost");
    for user in 2..=3 {
        let stored = store.load(user).await.unwrap().unwrap();
        assert_eq!(stored.bytes, world.block(user));
    }
    let kept: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(kept, ["00000000000000000001.damaged"]);
    recovered(folder.path(), &store).await.unwrap();
    world.journal.end(false);
}

#[tokio::test]
async fn a_store_that_is_older_than_the_journal_is_refused() {
    let (folder, store) = (tempfile::tempdir().unwrap(), MemoryStore::default());
    let world = world();
    for message in 1..=5 {
        world.acknowledged(1, ack(message)).await;
    }
    world.disk.cut(folder.path(), 0);
    // Without the first frame, as if that had been in a store that was put back.
    let file = Folder::open(folder.path()).unwrap().file(1);
    let bytes = fs::read(&file).unwrap();
    let second = memchr::memmem::find_iter(&bytes, b"RSJF").nth(1).unwrap();
    let mut shorter = bytes[..HEAD].to_vec();
    let mut rest = bytes[second..].to_vec();
    // Renumbered: damage of the file is another matter.
    let (mut at, mut number) = (0, 0_u64);
    while at < rest.len() {
        let length = u32::from_le_bytes(rest[at + 4..at + 8].try_into().unwrap()) as usize;
        let mut frame = Vec::new();
        put_frame(&mut frame, 1, number, &rest[at + 32..at + 32 + length]);
        let end = at + frame.len();
        rest[at..end].copy_from_slice(&frame);
        (at, number) = (end, number + 1);
    }
    shorter.extend(&rest);
    fs::write(&file, &shorter).unwrap();
    let refused = recovered(folder.path(), &store)
        .await
        .unwrap_err()
        .to_string();
    assert!(refused.contains("user 1"), "{refused}");
    assert!(store.load(1).await.unwrap().is_none(), "nothing changed");

    let accepting = JournalConfig {
        accept_damage: true,
        ..config(folder.path())
    };
    Journal::open(&accepting, &store, 8).await.unwrap();
    let stored = store.load(1).await.unwrap().unwrap();
    let block = codec::decode(&stored.bytes).unwrap().block;
    assert_eq!(block.state(10).unwrap().last_message, 5);
    let held = world.cache.read(1, |block| block.version()).unwrap();
    assert!(block.version() > held, "no version is given out twice");
    world.journal.end(false);
}

/// The first change after a restart jumps the version, whatever that was before.
#[tokio::test]
async fn a_store_that_is_older_is_refused_also_when_the_journal_begins_with_a_restart() {
    let (folder, store) = (tempfile::tempdir().unwrap(), MemoryStore::default());
    let first = world();
    first.acknowledged(1, ack(5)).await;
    first.disk.cut(folder.path(), 0);
    recovered(folder.path(), &store).await.unwrap();
    first.journal.end(false);
    let second = world_of(&store).await;
    second.acknowledged(1, ack(6)).await;
    second.disk.cut(folder.path(), 0);

    let older = MemoryStore::default();
    let refused = recovered(folder.path(), &older)
        .await
        .unwrap_err()
        .to_string();
    assert!(refused.contains("does not continue"), "{refused}");
    let accepting = JournalConfig {
        accept_damage: true,
        ..config(folder.path())
    };
    Journal::open(&accepting, &older, 8).await.unwrap();
    let stored = older.load(1).await.unwrap().unwrap();
    let block = codec::decode(&stored.bytes).unwrap().block;
    let held = second.cache.read(1, |block| block.version()).unwrap();
    assert_eq!(block.state(10).unwrap().last_message, 6);
    assert!(block.version() > held, "no version is given out twice");

    second.disk.cut(folder.path(), 0);
    recovered(folder.path(), &store).await.unwrap();
    let stored = store.load(1).await.unwrap().unwrap();
    let block = codec::decode(&stored.bytes).unwrap().block;
    assert_eq!(block.version(), held, "it continues this one");
    second.journal.end(false);
}

#[tokio::test]
async fn a_missing_file_and_one_of_a_newer_release_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = MemoryStore::default();
    let world = world();
    world.acknowledged(1, ack(1)).await;
    for message in 2..=3 {
        world.disk.failing_syncs.store(1, Ordering::SeqCst);
        world.acknowledged(1, ack(message)).await;
    }
    world.disk.cut(folder.path(), 0);
    let names = Folder::open(folder.path()).unwrap();
    assert_eq!(names.numbers().unwrap(), [1, 2, 3]);
    let second = fs::read(names.file(2)).unwrap();
    fs::remove_file(names.file(2)).unwrap();
    let refused = recovered(folder.path(), &store)
        .await
        .unwrap_err()
        .to_string();
    assert!(refused.contains("0002.journal\" is missing"), "{refused}");

    fs::write(names.file(2), &second[..second.len() - 1]).unwrap();
    let refused = recovered(folder.path(), &store)
        .await
        .unwrap_err()
        .to_string();
    assert!(refused.contains("cannot be read from byte"), "{refused}");

    let mut newer = second.clone();
    newer[7] = b'2';
    let sum = crc32fast::hash(&newer[..HEAD - 4]);
    newer[HEAD - 4..HEAD].copy_from_slice(&sum.to_le_bytes());
    fs::write(names.file(2), newer).unwrap();
    let refused = recovered(folder.path(), &store).await.unwrap_err();
    assert!(matches!(refused, JournalError::Newer { .. }), "{refused}");

    fs::write(names.file(2), second).unwrap();
    recovered(folder.path(), &store).await.unwrap();
    let stored = store.load(1).await.unwrap().unwrap();
    assert_eq!(stored.bytes, world.block(1));
    world.journal.end(false);
}

#[tokio::test]
async fn a_file_that_was_being_made_is_nothing() {
    let (folder, store) = (tempfile::tempdir().unwrap(), MemoryStore::default());
    let world = three_frames(folder.path()).await;
    let names = Folder::open(folder.path()).unwrap();
    fs::write(names.file(2), b"RSJ").unwrap();
    recovered(folder.path(), &store).await.unwrap();
    assert!(store.load(3).await.unwrap().is_some());
    assert_eq!(names.numbers().unwrap(), [0_u64; 0]);
    world.journal.end(false);
}

/// Without its head a file with frames is damaged, also where none of them can be found: a bad sector may have taken
/// both, and a newer release may write them in another way.
#[tokio::test]
async fn a_file_without_a_head_is_refused_if_it_ever_had_more() {
    for sector in [HEAD, HEAD + 1, 4096] {
        let (folder, store) = (tempfile::tempdir().unwrap(), MemoryStore::default());
        let world = three_frames(folder.path()).await;
        let file = Folder::open(folder.path()).unwrap().file(1);
        let mut bytes = fs::read(&file).unwrap();
        let bad = sector.min(bytes.len());
        bytes[..bad].fill(0);
        fs::write(&file, &bytes).unwrap();
        let refused = recovered(folder.path(), &store)
            .await
            .unwrap_err()
            .to_string();
        assert!(refused.contains("the head of"), "{refused}");
        assert_eq!(fs::read(&file).unwrap(), bytes, "nothing changed");
        let accepting = JournalConfig {
            accept_damage: true,
            ..config(folder.path())
        };
        Journal::open(&accepting, &store, 8).await.unwrap();
        let kept = file.with_extension("damaged");
        assert_eq!(fs::read(&kept).unwrap(), bytes, "kept");
        // Another with the same number, later.
        fs::write(&file, b"other bytes").unwrap();
        let another = Folder::open(folder.path()).unwrap();
        another.keep_damaged(1).unwrap();
        assert_eq!(fs::read(&kept).unwrap(), bytes, "still kept");
        world.journal.end(false);
    }
}
