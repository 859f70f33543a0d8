//! What every ring store must do, run on each of them.

mod conformance;
mod kubernetes;

use std::{fs, sync::Arc};

use conformance::{conforms, read, taken};
use readstates::{
    ownership::store::{FileRing, MemoryRing, RingStore, Swapped},
    store::chain,
};
use readstates_ring::RingTable;
use serde_json::Value;
use tempfile::tempdir;

use crate::common::rings::presence;

#[tokio::test]
async fn the_memory_ring_conforms() {
    let ring = Arc::new(MemoryRing::default());
    conforms(async || ring.clone()).await;
}

#[tokio::test]
async fn the_ring_in_a_folder_conforms() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("made/when/missing");
    conforms(async || Arc::new(FileRing::open(&path).unwrap())).await;
}

#[tokio::test]
async fn a_renewal_that_lands_late_does_not_replace_a_later_one() {
    let folder = tempdir().unwrap();
    let file = FileRing::open(folder.path()).unwrap();
    let stores: [Arc<dyn RingStore>; 2] = [Arc::new(MemoryRing::default()), Arc::new(file)];
    for store in stores {
        let mut last = presence("chat-1", 7, 5);
        last.epoch = Some(9);
        store.renew(last.clone()).await.unwrap();
        store.renew(presence("chat-1", 7, 4)).await.unwrap();
        assert_eq!(store.presences().await.unwrap(), [last]);
        store.renew(presence("chat-1", 7, 6)).await.unwrap();
        let said = store.presences().await.unwrap();
        assert_eq!(said, [presence("chat-1", 7, 6)]);
    }
}

#[tokio::test]
async fn a_swap_in_a_folder_ends_when_somebody_keeps_the_lock() {
    let folder = tempdir().unwrap();
    let ring = FileRing::open(folder.path()).unwrap();
    let lock = fs::File::open(folder.path().join("lock")).unwrap();
    lock.lock().unwrap();
    let error = ring.compare_and_swap(None, RingTable::default()).await;
    let error = chain(&error.unwrap_err());
    assert!(error.contains("another process holds it"), "{error}");
    assert!(!folder.path().join("ring.json").exists());
    // A reader does not wait for a writer.
    assert_eq!(ring.get().await.unwrap(), None);
}

#[tokio::test]
async fn a_file_that_somebody_edited_is_named_with_its_place() {
    let folder = tempdir().unwrap();
    let ring = FileRing::open(folder.path()).unwrap();
    let json = r#"{"number":1,"members":[],"epochs":[1],"owners":[0],"inherits":[-1]}"#;
    fs::write(folder.path().join("ring.json"), json).unwrap();
    let error = chain(&ring.get().await.unwrap_err());
    for part in [
        &*folder.path().to_string_lossy(),
        "ring.json",
        "epochs: there are 1 entries",
    ] {
        assert!(error.contains(part), "{error}");
    }
    fs::write(folder.path().join("members/x.json"), "{").unwrap();
    let error = chain(&ring.presences().await.unwrap_err());
    assert!(error.contains("x.json"), "{error}");
}

#[tokio::test]
async fn a_ring_in_a_folder_that_a_later_release_wrote_is_kept_or_left_alone() {
    let folder = tempdir().unwrap();
    let (ring, file) = (
        FileRing::open(folder.path()).unwrap(),
        folder.path().join("ring.json"),
    );
    let first = taken(&RingTable::default(), &[0], 1);
    ring.compare_and_swap(None, first).await.unwrap();
    let json = |text: &str| -> Value { serde_json::from_str(text).unwrap() };
    let written = json(&fs::read_to_string(&file).unwrap());
    for absent in ["backups", "reader", "line", "lines"] {
        assert_eq!(
            written.get(absent),
            None,
            "{absent}: as the first rings were"
        );
    }
    // What it does not forbid is written back as it was.
    let mut later = written;
    later["shadows"] = 7.into();
    fs::write(&file, later.to_string()).unwrap();
    let before = read(&ring).await;
    let next = taken(&before.table, &[1], 2);
    let swapped = ring.compare_and_swap(Some(before.version), next).await;
    let Ok(Swapped::Taken(before)) = swapped else {
        panic!("no other process swaps here")
    };
    let mut later = json(&fs::read_to_string(&file).unwrap());
    assert_eq!(later["shadows"], 7);
    // And what it does, by no means.
    later["reader"] = 3.into();
    fs::write(&file, later.to_string()).unwrap();
    let error = chain(&ring.get().await.unwrap_err());
    assert!(error.contains("run a newer release"), "{error}");
    let next = taken(&before.table, &[0], 2);
    let swapped = ring.compare_and_swap(Some(before.version), next).await;
    assert_eq!(swapped.unwrap(), Swapped::Conflict);
    assert_eq!(fs::read_to_string(&file).unwrap(), later.to_string());
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_is_refused_by_name() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().join("ring");
    let error = chain(&FileRing::open(&path).unwrap_err());
    assert!(error.contains(&*path.to_string_lossy()), "{error}");
}
