//! A node does more than one thing: it has mounted a local disk itself.

use anyhow::{Result, ensure};
use e2e_disk::{Rack, superdisk::Superdisk};

#[test]
fn a_local_disk_that_the_node_alone_has_mounted_is_not_taken() -> Result<()> {
    let mut rack = Rack::new("beside-mount")?;
    let superdisk = Superdisk::default();
    let vm = rack.boot()?;
    vm.run("/sbin/mke2fs -q -F /dev/nvme0n1 && mkdir -p /mnt/by-hand /mnt/data /host/proc && mount /dev/nvme0n1 /mnt/by-hand")?;
    // As a pod has it: mounts of its own, and the node's list of them at /host/proc.
    vm.run("mount --bind /proc /host/proc")?;
    let in_pod = |host: &str| {
        format!(
            "unshare -m sh -c \"umount /mnt/by-hand; {host} superdisk assemble {}\"",
            superdisk.flags()
        )
    };
    let answer = vm.ask(&in_pod(""))?;
    ensure!(
        answer.status == 3 && answer.stderr.contains("is mounted at /mnt/by-hand"),
        "{answer}"
    );
    // A list that is there and cannot be read is not an empty one.
    let answer = vm.ask(&in_pod(
        "mount -t tmpfs none /host/proc; mkdir -p /host/proc/1/mountinfo;",
    ))?;
    ensure!(
        answer.status == 1 && answer.stderr.contains("/host/proc/1/mountinfo"),
        "{answer}"
    );
    Ok(())
}
