//! The stacks that are compared, each made of the same two local disks and the same network disk.

use std::time::Duration;

use anyhow::Result;
use e2e_disk::Vm;

const STRIPE: &str = "mdadm --create /dev/md100 --run --metadata=1.2 --level=0 --raid-devices=2 --chunk=512 \
    /dev/nvme0n1 /dev/nvme1n1 && mdadm --zero-superblock /dev/md100; wipefs -qa /dev/md100";
const REBUILD: Duration = Duration::from_secs(180);

/// Something that reads are asked of.
pub(crate) struct Stack {
    pub(crate) name: &'static str,
    pub(crate) machine: &'static str,
    pub(crate) device: &'static str,
    pub(crate) assemble: fn(&Vm) -> Result<()>,
    /// A shell condition: the cache serves.
    pub(crate) alive: &'static str,
}

pub(crate) const SUPERDISK: Stack = Stack {
    name: "super-disk",
    machine: "bench-superdisk",
    device: "/dev/md101",
    assemble: superdisk,
    alive: "[ $(cat /sys/block/md101/md/degraded) = 0 ]",
};

pub(crate) const RAID0: &str = "RAID0 alone";
pub(crate) const NETWORK: &str = "network disk";

/// The super-disk and what it is made of, all in its machine: names and devices.
pub(crate) const WHOLE_AND_LEGS: [(&str, &str); 3] = [
    (RAID0, "/dev/md100"),
    (SUPERDISK.name, SUPERDISK.device),
    (NETWORK, "/dev/vda"),
];

pub(crate) const DMCACHE: Stack = Stack {
    name: "dm-cache",
    machine: "bench-dm-cache",
    device: "/dev/vg/data",
    assemble: dm_cache,
    alive: "dmsetup status vg-data | grep -q ' cache ' && ! dmsetup status vg-data | grep -qE 'Fail|needs_check'",
};

pub(crate) const BCACHE: Stack = Stack {
    name: "bcache",
    machine: "bench-bcache",
    device: "/dev/bcache0",
    assemble: bcache,
    alive: "grep -qE 'clean|dirty' /sys/block/bcache0/bcache/state && ls /sys/fs/bcache/ | grep -q -",
};

pub(crate) fn superdisk(vm: &Vm) -> Result<()> {
    vm.run(STRIPE)?;
    vm.run("mdadm --create /dev/md101 --run --metadata=1.2 --level=1 --raid-devices=2 --bitmap=internal --size=640M --write-mostly /dev/vda missing")?;
    add_fast_leg(vm)?;
    in_sync(vm)
}

pub(crate) fn add_fast_leg(vm: &Vm) -> Result<()> {
    vm.run(
        "echo 2000000 >/sys/block/md101/md/sync_speed_max; echo 2000000 >/sys/block/md101/md/sync_speed_min; \
         mdadm --zero-superblock /dev/md100; mdadm /dev/md101 --add --readwrite /dev/md100; \
         echo 0 >/sys/block/md101/queue/rotational",
    )
    .map(drop)
}

pub(crate) fn lose_fast_leg(vm: &Vm) -> Result<()> {
    vm.run("mdadm /dev/md101 --fail /dev/md100 --remove /dev/md100")
        .map(drop)
}

pub(crate) fn in_sync(vm: &Vm) -> Result<()> {
    vm.until("[ $(cat /sys/block/md101/md/degraded) = 0 ]", REBUILD)
}

/// As lvmcache(7) has it, without a udev to wait for.
fn dm_cache(vm: &Vm) -> Result<()> {
    vm.run(STRIPE)?;
    vm.run(
        "modprobe -a dm_mod dm_cache dm_cache_smq; mkdir -p /etc/lvm /run/lock/lvm; \
        printf 'activation { udev_sync=0 udev_rules=0 verify_udev_operations=0 }\\n\
        devices { use_devicesfile=0 scan_lvs=0 md_component_detection=0 allow_mixed_block_sizes=1 }\\n' >/etc/lvm/lvm.conf",
    )?;
    vm.run("pvcreate -qy /dev/vda /dev/md100 && vgcreate -qy vg /dev/vda /dev/md100")?;
    vm.run("lvcreate -qy -Wn -Zn -n data -L 640M vg /dev/vda && lvcreate -qy -Wn -Zn -n cache -L 560M vg /dev/md100")?;
    vm.run("lvconvert -qy --type cache --cachevol cache --cachemode writethrough --chunksize 64k vg/data && vgchange -ay vg")?;
    vm.run("[ -b /dev/vg/data ] || dmsetup mknodes; ls -l /dev/vg/ /dev/mapper")
        .map(drop)
}

fn bcache(vm: &Vm) -> Result<()> {
    vm.run(STRIPE)?;
    vm.run("modprobe bcache; make-bcache --wipe-bcache -C /dev/md100 -B /dev/vda; for disk in /dev/md100 /dev/vda; do echo $disk >/sys/fs/bcache/register || true; done")?;
    vm.until("[ -b /dev/bcache0 ]", Duration::from_secs(20))?;
    vm.run("cd /sys/block/bcache0/bcache; echo writethrough >cache_mode; echo 0 >sequential_cutoff; \
        for set in /sys/fs/bcache/*-*; do echo 0 >$set/congested_read_threshold_us; done; cat state")
        .map(drop)
}
