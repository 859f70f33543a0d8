//! The super-disk as a test sees it: its commands, files on it whose checksums are known, and the oracle
//! that every scenario ends with.

use std::{ops::Range, time::Duration};

use anyhow::{Context as _, Result, ensure};

use crate::{
    disk::PAGE,
    orders::Answer,
    rack::{DURABLE, local},
    vm::Vm,
};

/// A bitmap bit is cleared 10 s after the last write; a set one lets a check heal what it should find.
const QUIET_S: u64 = 13;
/// A full copy of a leg takes seconds alone, and a minute beside a build.
pub const REBUILD: Duration = Duration::from_mins(10);

/// The pod that an agent is told to be in.
pub const POD: &str = "0b2c8a6e-pod";

/// What a pod's flags say about its super-disk.
#[derive(Clone, Debug)]
pub struct Superdisk {
    /// Number of local disks asked for.
    pub locals: usize,
    /// UID of the claim.
    pub volume: String,
    /// `ext4`, or `xfs` which wants 300 MB and more.
    pub filesystem: &'static str,
    /// The network disk's name.
    pub durable: String,
    /// Where it is mounted.
    pub mount: &'static str,
}

/// Files that a test wrote, as `md5sum` lists them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files(String);

/// A page of a disk: the disk's name, and its bytes.
pub type Place = (String, Range<u64>);

/// Where the bytes of a fast leg of two local disks are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FastLeg {
    /// Where the mirror's data begins on it, in bytes. Right before that are both copies of the header.
    pub data: u64,
    chunk: u64,
    /// Where the RAID0's data begins on each, and its name.
    disks: [(u64, String); 2],
}

impl FastLeg {
    /// Where one of its pages is.
    #[must_use]
    pub fn place(&self, at: u64) -> Place {
        let chunk = at / self.chunk;
        let (data, name) = &self.disks[usize::from(!chunk.is_multiple_of(2))];
        let at = data + chunk / 2 * self.chunk + at % self.chunk;
        (name.clone(), at..at + PAGE)
    }

    /// Where both copies of the header are.
    #[must_use]
    pub fn headers(&self) -> [Place; 2] {
        [2, 1].map(|before| self.place(self.data - before * PAGE))
    }
}

impl Default for Superdisk {
    fn default() -> Self {
        Self {
            locals: 2,
            volume: "5e1f0a51-3d17-4c55-9ba5-0c4ad2dbf6c0".to_owned(),
            filesystem: "ext4",
            durable: DURABLE.to_owned(),
            mount: "/mnt/data",
        }
    }
}

impl Superdisk {
    #[must_use]
    pub fn xfs() -> Self {
        Self {
            filesystem: "xfs",
            ..Self::default()
        }
    }

    /// A shell condition that is true while the super-disk is mounted.
    #[must_use]
    pub fn is_mounted(&self) -> String {
        format!("grep -q ' {} ' /proc/mounts", self.mount)
    }

    /// The flags that all commands share.
    #[must_use]
    pub fn flags(&self) -> String {
        let Self {
            locals,
            volume,
            filesystem,
            durable,
            mount,
        } = self;
        format!(
            "--durable /dev/disk/by-id/google-{durable} --local '/dev/disk/by-id/google-local-nvme-ssd-*' \
             --local-count {locals} --volume-uid {volume} --mount {mount} --fs {filesystem}"
        )
    }

    /// `superdisk COMMAND` with the flags of this super-disk and more; it may fail.
    ///
    /// # Errors
    /// When the machine does.
    pub fn ask(&self, vm: &Vm, command: &str, more: &str) -> Result<Answer> {
        vm.ask(&format!(
            "mkdir -p {}; superdisk {command} {} {more}",
            self.mount,
            self.flags()
        ))
    }

    /// Assembles; the filesystem is mounted then.
    ///
    /// # Errors
    /// When it does not.
    pub fn assemble(&self, vm: &Vm) -> Result<String> {
        let printed = self.ask(vm, "assemble", "")?.success()?;
        vm.run(&self.is_mounted())?;
        Ok(printed)
    }

    /// Is refused to assemble, with this code, and has changed nothing on any disk.
    ///
    /// # Errors
    /// When it is not.
    pub fn refused(&self, vm: &Vm, more: &str, code: &str) -> Result<()> {
        vm.run("sync; sleep 1")?;
        let written = || vm.drives.iter().map(|(_, disk)| disk.bytes_written()).sum();
        let before: u64 = written();
        let answer = self.ask(vm, "assemble", more)?;
        ensure!(
            answer.status == 3 && answer.stderr.split_whitespace().next() == Some(code),
            "not refused with {code}: {answer}"
        );
        let after: u64 = written();
        ensure!(
            after == before,
            "{code}: {} bytes were written",
            after - before
        );
        ensure!(
            vm.ask(&self.is_mounted())?.status != 0,
            "{code}: it is mounted"
        );
        Ok(())
    }

    /// Lets the agent look once, and do what is to be done.
    ///
    /// # Errors
    /// When it does not.
    pub fn agent_round(&self, vm: &Vm) -> Result<String> {
        self.ask(vm, "agent", "--once")?.success()
    }

    /// Unmounts and stops everything.
    ///
    /// # Errors
    /// When it does not.
    pub fn tear_down(&self, vm: &Vm) -> Result<()> {
        self.ask(vm, "teardown", "")?.success()?;
        ensure!(arrays(vm)?.is_empty(), "an array is left");
        Ok(())
    }

    /// Writes `count` files of 1 MiB named `PREFIX-N`, and returns when they are on the disk.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write(&self, vm: &Vm, prefix: &str, count: usize) -> Result<Files> {
        vm.run(&format!(
            "cd {} && for n in $(seq {count}); do \
             dd if=/dev/urandom of={prefix}-$n bs=1M count=1 conv=fsync 2>/dev/null || exit 1; done",
            self.mount
        ))?;
        self.list(vm, prefix)
    }

    /// The files whose names begin so, synced, as they are now.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn list(&self, vm: &Vm, prefix: &str) -> Result<Files> {
        Ok(Files(vm.run(&format!(
            "sync && cd {} && md5sum {prefix}-*",
            self.mount
        ))?))
    }

    /// The files are there, byte by byte, as the disk has them and not a cache.
    ///
    /// # Errors
    /// When one is not.
    pub fn has(&self, vm: &Vm, files: &Files) -> Result<()> {
        let list = &files.0;
        vm.run("echo 3 >/proc/sys/vm/drop_caches")?;
        let command = format!("cd {} && md5sum -c >&2 <<'EOF'\n{list}EOF", self.mount);
        vm.ask(&command)?
            .success()
            .context("a file is not as it was written")?;
        Ok(())
    }

    /// As [`Self::has`], for a filesystem that takes no writes: what is in the cache counts.
    ///
    /// # Errors
    /// When a file is not there.
    pub fn has_still(&self, vm: &Vm, files: &Files) -> Result<()> {
        let list = &files.0;
        let command = format!("cd {} && md5sum -c >&2 <<'EOF'\n{list}EOF", self.mount);
        vm.ask(&command)?
            .success()
            .context("a file is not as it was written")?;
        Ok(())
    }

    /// The name of the array that is mounted, such as `md101`; the only RAID1 where none is.
    ///
    /// # Errors
    /// When there is none, or more.
    pub fn mirror(&self, vm: &Vm) -> Result<String> {
        let device = vm.run(&format!(
            "awk '$2 == \"{}\" {{print $1}}' /proc/mounts",
            self.mount
        ))?;
        match device.trim().strip_prefix("/dev/md") {
            Some(number) => Ok(format!("md{number}")),
            None => mirror(vm),
        }
    }

    /// Where the network disk keeps both copies of its lineage header, in bytes.
    ///
    /// # Errors
    /// When no mirror runs.
    pub fn headers(&self, vm: &Vm) -> Result<Range<u64>> {
        let mirror = self.mirror(vm)?;
        let data = vm.run(&format!("cat /sys/block/{mirror}/md/rd0/offset"))?;
        let end = data.trim().parse::<u64>()? * 512;
        Ok(end - 2 * PAGE..end)
    }

    /// How the bytes of the fast leg lie on the local disks.
    ///
    /// # Errors
    /// When no mirror with a fast leg of two local disks runs.
    pub fn fast_leg(&self, vm: &Vm) -> Result<FastLeg> {
        let mirror = self.mirror(vm)?;
        let told = vm.run(&format!(
            "cd /sys/block/{mirror}/md/rd1 && cat offset && cd block/md && cat chunk_size && \
             for n in 0 1; do cat rd$n/offset rd$n/block/device/serial || exit 1; done"
        ))?;
        let words: Vec<&str> = told.split_whitespace().collect();
        let [data, chunk, first, first_name, second, second_name] = words[..] else {
            anyhow::bail!("not a fast leg of two disks: {told:?}");
        };
        let disk =
            |data: &str, name: &str| anyhow::Ok((data.parse::<u64>()? * 512, name.to_owned()));
        Ok(FastLeg {
            data: data.parse::<u64>()? * 512,
            chunk: chunk.parse()?,
            disks: [disk(first, first_name)?, disk(second, second_name)?],
        })
    }

    /// Starts the agent beside it, and waits until it is ready.
    ///
    /// # Errors
    /// When it does not get ready.
    pub fn start_agent(&self, vm: &Vm, more: &str) -> Result<()> {
        vm.run("ip link set lo up 2>/dev/null || ifconfig lo up")?;
        vm.run(&format!(
            "superdisk agent {} --pod {POD} --listen 127.0.0.1:9950 {more} >/run/agent.log 2>&1 & echo $! >/run/agent.pid",
            self.flags()
        ))?;
        vm.until(&answers("readyz"), Duration::from_mins(1))
    }

    /// Waits until both legs are in sync.
    ///
    /// # Errors
    /// When they are not in time.
    pub fn in_sync(&self, vm: &Vm) -> Result<()> {
        let mirror = self.mirror(vm)?;
        vm.until(
            &format!(
                "[ $(cat /sys/block/{mirror}/md/degraded) = 0 ] && [ $(cat /sys/block/{mirror}/md/sync_action) = idle ]"
            ),
            REBUILD,
        )
    }

    /// Waits until md goes on without the durable leg, with all that was written on the fast leg. No agent may run: it would
    /// freeze the filesystem.
    ///
    /// # Errors
    /// When md does not notice in time.
    pub fn goes_on_alone(&self, vm: &Vm) -> Result<()> {
        let mirror = self.mirror(vm)?;
        vm.until(
            &format!("[ $(cat /sys/block/{mirror}/md/degraded) = 1 ]"),
            Duration::from_mins(1),
        )?;
        vm.run("sync; sleep 1")?;
        Ok(())
    }

    /// Has the fast leg kept, and returns while the durable leg is given what it missed.
    ///
    /// # Errors
    /// When that does not begin in time.
    pub fn begin_to_keep_fast(&self, vm: &Vm) -> Result<()> {
        vm.run(&format!(
            "superdisk resolve {} --keep fast >/run/resolve.log 2>&1 &",
            self.flags()
        ))?;
        vm.until("grep -q recovery /proc/mdstat", Duration::from_mins(5))
    }

    /// The oracle: both legs are in sync, md's own check finds no difference after a time of quiet, the
    /// durable leg is in slot 0 and write-mostly, pages do not change while they are written, and the files are there.
    ///
    /// # Errors
    /// When any of it is not so.
    pub fn is_whole(&self, vm: &Vm, files: &[&Files]) -> Result<()> {
        self.in_sync(vm)?;
        let mirror = self.mirror(vm)?;
        let slot = vm.run(&format!(
            "cat /sys/block/{mirror}/md/rd0/state; ls /sys/block/{mirror}/md/rd0/block/ | grep -q serial; \
             cat /sys/block/{mirror}/md/rd0/block/serial"
        ))?;
        ensure!(
            slot.contains("write_mostly") && slot.contains(&self.durable),
            "slot 0 is not the durable leg: {slot}"
        );
        let stable = vm.run(&format!("cat /sys/block/{mirror}/queue/stable_writes"))?;
        ensure!(stable.trim() == "1", "pages change while they are written");
        let mismatch = mismatch(vm, &mirror)?;
        if mismatch != 0 {
            let place = first_difference(vm, &mirror)?;
            anyhow::bail!("md's check finds {mismatch} sectors different: {place}");
        }
        for files in files {
            self.has(vm, files)?;
        }
        Ok(())
    }
}

/// A shell condition: the agent answers this path with 200.
#[must_use]
pub fn answers(path: &str) -> String {
    format!("wget -qO /dev/null http://127.0.0.1:9950/{path} 2>/dev/null")
}

/// The name of the running RAID1, such as `md101`.
///
/// # Errors
/// When there is none, or more.
pub fn mirror(vm: &Vm) -> Result<String> {
    let found = vm.run(
        "for md in /sys/block/md*; do [ \"$(cat $md/md/level)\" = raid1 ] && basename $md; done; true",
    )?;
    let mut names = found.lines();
    match (names.next(), names.next()) {
        (Some(name), None) => Ok(name.to_owned()),
        _ => anyhow::bail!("not one RAID1: {found:?}"),
    }
}

/// All arrays.
///
/// # Errors
/// When the machine is gone.
pub fn arrays(vm: &Vm) -> Result<Vec<String>> {
    let found = vm.run("ls /sys/block | grep ^md || true")?;
    Ok(found.lines().map(str::to_owned).collect())
}

/// Sectors that md's check finds different.
///
/// # Errors
/// When the check does not end.
pub fn mismatch(vm: &Vm, mirror: &str) -> Result<u64> {
    let md = format!("/sys/block/{mirror}/md");
    vm.run(&format!(
        "sync; sleep {QUIET_S}; echo check >{md}/sync_action"
    ))?;
    vm.until(&format!("[ $(cat {md}/sync_action) = idle ]"), REBUILD)?;
    Ok(vm.run(&format!("cat {md}/mismatch_cnt"))?.trim().parse()?)
}

/// Where the legs of a mirror differ first, as `cmp` says it: byte of the filesystem, counted from 1.
fn first_difference(vm: &Vm, mirror: &str) -> Result<String> {
    let answer = vm.ask(&format!(
        "cd /sys/block/{mirror}/md; size=$(cat component_size); rm -f /run/rd0 /run/rd1; mkfifo /run/rd0 /run/rd1; \
         for leg in rd0 rd1; do \
         dd if=/dev/$(basename $(readlink $leg/block)) bs=1k skip=$(($(cat $leg/offset) / 2)) count=$size 2>/dev/null >/run/$leg & \
         done; cmp /run/rd0 /run/rd1"
    ))?;
    Ok(answer.stdout.trim().to_owned())
}

/// The disk names of the locals of a super-disk.
pub fn locals(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(local)
}
