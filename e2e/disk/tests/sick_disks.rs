//! Disks that lose sectors under reads and writes.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e_disk::{
    PAGE, Rack, Vm,
    superdisk::{Files, Superdisk, mirror},
};

const SECOND: Duration = Duration::from_secs(1);
/// Where the marked pages lie in their file of 8 MiB.
const MARKED: [u64; 4] = [3, 700, 1201, 1999];

/// A super-disk in sync with files on it, and one file with pages whose place on the local disks is known.
fn rack_with_marks(name: &str) -> Result<(Rack, Superdisk, Vm, Files)> {
    let mut rack = Rack::new(name)?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    superdisk.in_sync(&vm)?;
    superdisk.write(&vm, "file", 8)?;
    vm.run("dd if=/dev/urandom of=/mnt/data/file-marked bs=1M count=8 2>/dev/null")?;
    for page in MARKED {
        vm.run(&format!(
            "tr '\\0' '\\345' </dev/zero | dd of=/mnt/data/file-marked bs=4k count=1 seek={page} conv=notrunc iflag=fullblock 2>/dev/null"
        ))?;
    }
    let list = superdisk.list(&vm, "file")?;
    Ok((rack, superdisk, vm, list))
}

/// The local disks' places of the marked pages.
fn places(rack: &Rack) -> Result<Vec<(usize, u64)>> {
    let mut found = Vec::new();
    for slot in 0..2 {
        let disk = rack.local(slot);
        for page in 0..disk.size() / PAGE {
            let offset = page * PAGE;
            if disk.peek(offset, 4096)?.iter().all(|byte| *byte == 0o345) {
                found.push((slot, offset));
            }
        }
    }
    ensure!(found.len() >= MARKED.len(), "{found:?}");
    Ok(found)
}

/// Pages of the local disks that cannot be read.
fn bad_pages(rack: &Rack) -> usize {
    rack.local(0).bad_pages() + rack.local(1).bad_pages()
}

fn member_file(vm: &Vm, file: &str) -> Result<String> {
    let mirror = mirror(vm)?;
    let text = vm.run(&format!("cat /sys/block/{mirror}/md/dev-md*/{file}"))?;
    Ok(text.trim().to_owned())
}

#[test]
fn lost_sectors_are_healed_under_load_and_the_reader_sees_right_data() -> Result<()> {
    let (rack, superdisk, vm, files) = rack_with_marks("healed")?;
    vm.run("sleep 1; echo 3 >/proc/sys/vm/drop_caches")?;
    let load = "echo $$ >/run/load; while :; do dd if=/dev/urandom of=/mnt/data/noise bs=64k count=64 conv=fsync; done 2>/dev/null";
    let _load = vm.begin(load, 600 * SECOND)?;
    rack.durable().take_counters();
    superdisk.has(&vm, &files)?;
    let healthy = rack.durable().take_counters().reads;
    ensure!(
        healthy == 0,
        "{healthy} reads of the network disk while all was well"
    );
    for (slot, offset) in places(&rack)? {
        rack.local(slot).lose(offset..offset + PAGE);
    }
    superdisk.has(&vm, &files)?;
    let reads = rack.durable().take_counters().reads;
    ensure!(bad_pages(&rack) == 0, "not healed");
    ensure!(reads > 0, "nothing was read from the network disk");
    let errors: u64 = member_file(&vm, "errors")?.parse()?;
    ensure!(errors > 0, "md counted no error");
    superdisk.has(&vm, &files)?;
    let reads = rack.durable().take_counters().reads;
    ensure!(
        reads == 0,
        "{reads} reads of the network disk after the healing"
    );
    vm.run("kill -9 $(cat /run/load); sleep 2; rm /mnt/data/noise")?;
    superdisk.is_whole(&vm, &[&files])
}

#[test]
fn sectors_that_cannot_be_healed_are_read_from_the_network_disk() -> Result<()> {
    let (rack, superdisk, vm, files) = rack_with_marks("sticky")?;
    let (slot, offset) = places(&rack)?.into_iter().next().context("no mark")?;
    rack.local(slot).break_for_good(offset..offset + PAGE);
    for _ in 0..3 {
        superdisk.has(&vm, &files)?;
    }
    let state = member_file(&vm, "state")?;
    ensure!(
        state.contains("in_sync"),
        "the fast leg is gone for one sector: {state}"
    );
    ensure!(
        !member_file(&vm, "bad_blocks")?.is_empty(),
        "md remembers no bad block"
    );
    // The disk has found a spare sector: a rewrite heals it, after md was told to try.
    rack.local(slot).mend();
    let mirror = mirror(&vm)?;
    vm.run(&format!(
        "for s in /sys/block/{mirror}/md/dev-md*/state; do echo -write_error >$s; done"
    ))?;
    vm.run("dd if=/dev/zero of=/run/zero bs=4k count=1 2>/dev/null; for f in /mnt/data/file-*; do dd if=$f of=$f conv=notrunc,fsync bs=1M 2>/dev/null; done")?;
    superdisk.is_whole(&vm, &[&files])?;
    ensure!(
        member_file(&vm, "bad_blocks")?.is_empty(),
        "the bad block is still remembered"
    );
    Ok(())
}

#[test]
fn a_network_disk_that_hangs_stops_writes_and_not_reads() -> Result<()> {
    let (rack, superdisk, vm, files) = rack_with_marks("hangs")?;
    vm.run("sync; sleep 1")?;
    rack.durable().hang(true);
    let write = vm.begin(
        "dd if=/dev/zero of=/mnt/data/slow bs=4k count=1 conv=fsync",
        120 * SECOND,
    )?;
    superdisk.has(&vm, &files)?;
    rack.durable().hang(false);
    write.wait()?.success()?;
    superdisk.is_whole(&vm, &[&files])
}

#[test]
fn a_bad_sector_in_the_head_of_a_local_disk_keeps_no_pod_from_starting() -> Result<()> {
    let mut rack = Rack::new("bad-head")?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    let files = superdisk.write(&vm, "file", 4)?;
    superdisk.in_sync(&vm)?;
    let lose = |pages: &[u64]| {
        for page in pages {
            rack.local(1).lose(page * PAGE..(page + 1) * PAGE);
        }
    };
    // The first sector and gaps that nothing uses, one after the other; then some at once.
    for pages in [&[0][..], &[2], &[255], &[0, 2, 100]] {
        superdisk.tear_down(&vm)?;
        lose(pages);
        superdisk
            .assemble(&vm)
            .with_context(|| format!("pages {pages:?}"))?;
        superdisk.has(&vm, &files)?;
        superdisk.in_sync(&vm)?;
    }
    // Without its superblock nothing says whose the disk is: it is not taken, and the network disk serves.
    superdisk.tear_down(&vm)?;
    lose(&[1]);
    superdisk.assemble(&vm)?;
    superdisk.has(&vm, &files)?;
    let mirror = mirror(&vm)?;
    vm.run(&format!("[ $(cat /sys/block/{mirror}/md/degraded) = 1 ]"))?;
    // The unreadable sectors are given up: a write makes them readable again.
    vm.run("dd if=/dev/zero of=/dev/disk/by-id/google-local-nvme-ssd-1 bs=1M count=1 oflag=direct 2>/dev/null")?;
    superdisk.assemble(&vm)?;
    superdisk.is_whole(&vm, &[&files])
}

/// A start with one page of the network disk that cannot be read.
enum Start {
    IsRefused,
    Serves,
    /// It serves, creates the bitmap again, and copies everything to the fast leg.
    MakesABitmap,
}

#[test]
fn a_bad_sector_of_the_network_disk_loses_nothing_wherever_it_is() -> Result<()> {
    let mut rack = Rack::new("sweep-durable")?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    let files = superdisk.write(&vm, "file", 4)?;
    superdisk.in_sync(&vm)?;
    let data = superdisk.headers(&vm)?.end;
    let mirror = mirror(&vm)?;
    let bitmap = vm.run(&format!("cat /sys/block/{mirror}/md/bitmap/location"))?;
    // In sectors, from the superblock on, which is at the 8th.
    let bitmap = (bitmap.trim().parse::<u64>()? + 8) * 512;
    for (what, at, start) in [
        ("before its superblock", 0, Start::Serves),
        ("its superblock", PAGE, Start::IsRefused),
        ("its bitmap", bitmap, Start::MakesABitmap),
        ("an unused gap", data / 2 / PAGE * PAGE, Start::Serves),
        ("one of its headers", data - PAGE, Start::Serves),
        ("the filesystem's superblock", data, Start::IsRefused),
        ("the filesystem's blocks", data + (64 << 20), Start::Serves),
        ("its end", rack.durable().size() - PAGE, Start::Serves),
    ] {
        superdisk.tear_down(&vm)?;
        rack.durable().lose(at..at + PAGE);
        let seen = match start {
            Start::Serves => superdisk
                .assemble(&vm)
                .and_then(|_| superdisk.has(&vm, &files)),
            Start::IsRefused => superdisk.refused(&vm, "", "E_PD_LOST"),
            Start::MakesABitmap => makes_a_bitmap(&rack, &superdisk, &vm, &files),
        };
        seen.with_context(|| format!("{what} cannot be read"))?;
        // It has found again what it had lost.
        rack.durable().mend();
        superdisk.assemble(&vm)?;
        superdisk.has(&vm, &files).context(what)?;
        superdisk.in_sync(&vm)?;
    }
    superdisk.is_whole(&vm, &[&files])
}

fn makes_a_bitmap(rack: &Rack, superdisk: &Superdisk, vm: &Vm, files: &Files) -> Result<()> {
    let printed = superdisk.assemble(vm)?;
    ensure!(
        printed.contains("--update=no-bitmap")
            && printed.contains("--bitmap=internal")
            && !printed.contains("--re-add"),
        "{printed}"
    );
    ensure!(rack.durable().bad_pages() == 0, "it was not written anew");
    superdisk.has(vm, files)?;
    superdisk.in_sync(vm)
}

#[test]
fn a_bad_sector_of_the_fast_leg_keeps_no_pod_from_starting_wherever_it_is() -> Result<()> {
    let mut rack = Rack::new("sweep-fast")?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    superdisk.assemble(&vm)?;
    let files = superdisk.write(&vm, "file", 4)?;
    superdisk.in_sync(&vm)?;
    let fast = superdisk.fast_leg(&vm)?;
    for (what, at) in [
        ("before the superblock inside", 0),
        ("the superblock inside", PAGE),
        ("the bitmap inside", 2 * PAGE),
        ("an unused gap", fast.data / 2 / PAGE * PAGE),
        ("one of its headers", fast.data - 2 * PAGE),
        ("the filesystem's superblock", fast.data),
        ("the filesystem's blocks", fast.data + (64 << 20)),
    ] {
        superdisk.tear_down(&vm)?;
        let (disk, page) = fast.place(at);
        rack.disk(&disk).lose(page);
        let answer = superdisk.ask(&vm, "assemble", "")?;
        let said = answer.stderr.clone();
        answer
            .success()
            .with_context(|| format!("{what} cannot be read"))?;
        superdisk.has(&vm, &files).context(what)?;
        // Without these pages it is no leg, and md reads them before it writes them: it is left out, and that is said.
        if at == PAGE || at == 2 * PAGE {
            ensure!(said.contains("serving without the fast leg"), "{said}");
        } else {
            superdisk.in_sync(&vm).context(what)?;
        }
        rack.disk(&disk).mend();
        superdisk.assemble(&vm).context(what)?;
        superdisk.in_sync(&vm).context(what)?;
    }
    superdisk.is_whole(&vm, &[&files])
}
