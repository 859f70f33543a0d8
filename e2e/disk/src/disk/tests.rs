use super::*;

const SIZE: u64 = 64 * PAGE;

fn disk(cache: WriteCache) -> (tempfile::TempDir, Disk) {
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::blank("d", &folder.path().join("d.img"), SIZE, cache).unwrap();
    (folder, disk)
}

#[test]
fn a_lost_sector_is_unreadable_until_it_is_written() {
    let (_folder, disk) = disk(WriteCache::Through);
    disk.write(0, &[7; 8192], false).unwrap();
    disk.lose(4096..4097);
    assert_eq!(disk.read(0, 4096), Ok(vec![7; 4096]));
    assert_eq!(disk.read(0, 8192), Err(EIO));
    disk.write(4096, &[8; 4096], false).unwrap();
    assert_eq!(disk.read(4096, 4096), Ok(vec![8; 4096]));
    assert_eq!(disk.bad_pages(), 0);
}

#[test]
fn a_broken_sector_stays_broken() {
    let (_folder, disk) = disk(WriteCache::Through);
    disk.break_for_good(0..1);
    assert_eq!(disk.write(0, &[1; 4096], false), Err(EIO));
    assert_eq!(disk.read(0, 512), Err(EIO));
    assert_eq!(disk.write(4096, &[1; 4096], false), Ok(()));
}

#[test]
fn a_power_cut_takes_what_was_not_flushed_and_nothing_else() {
    let (_folder, disk) = disk(WriteCache::Volatile);
    disk.write(0, &[1; 4096], false).unwrap();
    disk.flush().unwrap();
    assert!(!disk.comes_to_hold_unflushed(Duration::ZERO));
    let waits = disk.clone();
    let waits = std::thread::spawn(move || waits.comes_to_hold_unflushed(Duration::MAX));
    disk.write(0, &[2; 512], false).unwrap();
    assert!(waits.join().unwrap());
    disk.write(8192, &[3; 4096], true).unwrap();
    assert_eq!(disk.read(0, 1024), Ok([[2; 512], [1; 512]].concat()));
    disk.cut_power();
    assert_eq!(disk.read(0, 1024), Ok(vec![1; 1024]));
    assert_eq!(disk.read(8192, 4096), Ok(vec![3; 4096]));
    assert_eq!(disk.take_counters().lost_pages, 1);
}

#[test]
fn a_snapshot_is_restored_with_its_size() {
    let (_folder, disk) = disk(WriteCache::Through);
    disk.write(SIZE - 4096, &[5; 4096], false).unwrap();
    let snapshot = disk.snapshot("before").unwrap();
    disk.grow(2 * SIZE).unwrap();
    disk.write(SIZE - 4096, &[6; 8192], false).unwrap();
    disk.restore(&snapshot).unwrap();
    assert_eq!(disk.size(), SIZE);
    assert_eq!(disk.read(SIZE - 4096, 4096), Ok(vec![5; 4096]));
}

#[test]
fn nothing_beyond_the_end_and_nothing_while_it_fails() {
    let (_folder, disk) = disk(WriteCache::Through);
    assert_eq!(disk.read(SIZE - 512, 1024), Err(EINVAL));
    assert_eq!(disk.write(u64::MAX, &[0], false), Err(EINVAL));
    disk.fail(true);
    assert_eq!(disk.flush(), Err(EIO));
    assert_eq!(disk.read(0, 512), Err(EIO));
    disk.mend();
    assert_eq!(disk.read(0, 512), Ok(vec![0; 512]));
    assert_eq!(disk.take_counters().errors, 4);
}
