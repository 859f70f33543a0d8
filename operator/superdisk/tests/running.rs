//! Observing running arrays, over folders that look like a node's sysfs: as md 6.1 writes them.

#![expect(
    clippy::unwrap_used,
    reason = "a test whose world cannot be made has failed"
)]

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use superdisk::{
    heal::{
        facts::Facts,
        observe::{LookError, look, unseen},
    },
    md::{Flags, SyncAction},
    model::{DeviceNumber, Request},
    sysfs::{NodeKind, Nodes},
};
use tempfile::TempDir;

/// A node whose super-disk is `md201` over `sdb` and `md200`, mounted at /data.
struct Node {
    root: TempDir,
    nodes: BTreeMap<PathBuf, NodeKind>,
}

impl Nodes for Node {
    fn kind(&self, path: &Path) -> io::Result<NodeKind> {
        let found = self.nodes.get(path).cloned();
        found.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }
}

impl Node {
    fn new() -> Self {
        let mut node = Self {
            root: TempDir::new().unwrap(),
            nodes: BTreeMap::new(),
        };
        node.file("proc/sys/kernel/osrelease", "6.1.0\n");
        node.file(
            "proc/self/mountinfo",
            "30 22 9:201 / /data rw shared:1 - xfs /dev/md201 rw\n",
        );
        node.disk("sdb", (8, 16), &["md201"], "12 0 96 7 40 0 320 90 0 0 0\n");
        node.disk("nvme0n1", (259, 0), &["md200"], "");
        node.disk("nvme1n1", (259, 1), &["md200"], "");
        node.disk(
            "md200",
            (9, 200),
            &["md201"],
            "900 0 7200 45 40 0 320 8 0 0 0\n",
        );
        node.disk("md201", (9, 201), &[], "");
        node.array("md200", "raid0", &[("nvme0n1", "0"), ("nvme1n1", "1")]);
        node.array("md201", "raid1", &[("sdb", "0"), ("md200", "1")]);
        for (file, text) in [
            ("sync_action", "idle\n"),
            ("sync_completed", "none\n"),
            ("sync_speed", "none\n"),
            ("sync_speed_min", "65536 (local)\n"),
            ("sync_speed_max", "524288 (local)\n"),
            ("sync_max", "max\n"),
            ("max_read_errors", "1000000\n"),
            ("mismatch_cnt", "0\n"),
            ("bitmap/backlog", "0\n"),
            ("dev-sdb/state", "in_sync,write_mostly\n"),
        ] {
            node.md("md201", file, text);
        }
        node
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn link(&self, path: &str, to: &str) {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(self.root.path().join(to), path).unwrap();
    }

    fn disk(&mut self, name: &str, (major, minor): (u32, u32), holders: &[&str], stat: &str) {
        let folder = format!("sys/devices/{name}");
        self.file(&format!("{folder}/uevent"), &format!("DEVNAME={name}\n"));
        self.file(&format!("{folder}/dev"), &format!("{major}:{minor}\n"));
        self.file(&format!("{folder}/size"), "2097152\n");
        self.file(&format!("{folder}/ro"), "0\n");
        self.file(&format!("{folder}/stat"), stat);
        self.file(&format!("{folder}/queue/rotational"), "0\n");
        fs::create_dir_all(self.root.path().join(&folder).join("holders")).unwrap();
        for holder in holders {
            self.file(&format!("{folder}/holders/{holder}"), "");
        }
        self.link(&format!("sys/dev/block/{major}:{minor}"), &folder);
        self.link(&format!("sys/class/block/{name}"), &folder);
        let node = self.root.path().join("dev").join(name);
        self.file(&format!("dev/{name}"), "");
        self.nodes
            .insert(node, NodeKind::Block(DeviceNumber { major, minor }));
    }

    fn array(&self, name: &str, level: &str, members: &[(&str, &str)]) {
        self.md(name, "level", &format!("{level}\n"));
        self.md(name, "array_state", "clean\n");
        for (member, slot) in members {
            let folder = format!("dev-{member}");
            self.md(name, &format!("{folder}/state"), "in_sync\n");
            self.md(name, &format!("{folder}/slot"), &format!("{slot}\n"));
            self.md(name, &format!("{folder}/errors"), "0\n");
            self.md(name, &format!("{folder}/bad_blocks"), "");
            let device = format!("sys/devices/{member}");
            self.link(&format!("sys/devices/{name}/md/{folder}/block"), &device);
        }
    }

    fn md(&self, array: &str, file: &str, text: &str) {
        self.file(&format!("sys/devices/{array}/md/{file}"), text);
    }

    fn unplug(&mut self, name: &str) {
        let root = self.root.path();
        fs::remove_dir_all(root.join("sys/devices").join(name)).unwrap();
        fs::remove_file(root.join("dev").join(name)).unwrap();
        self.nodes.remove(&root.join("dev").join(name));
    }

    fn look_having_known(&self, known: Option<&str>) -> Facts {
        self.try_to_look(known).unwrap()
    }

    fn try_to_look(&self, known: Option<&str>) -> Result<Facts, LookError> {
        let root = self.root.path();
        look(&Self::request(), Path::new("/data"), known, root, self)
    }

    fn request() -> Request {
        Request {
            durable: Some("/dev/sdb".into()),
            local: vec!["/dev/nvme?n1".to_owned()],
            local_count: 2,
        }
    }

    /// Puts a file where a folder belongs, or a folder where a file does: it can be opened, and not be read.
    fn spoil(&self, file: &str) {
        let path = self.root.path().join(file);
        if path.is_dir() {
            fs::remove_dir_all(&path).unwrap();
            fs::write(&path, "").unwrap();
        } else {
            let _ = fs::remove_file(&path);
            fs::create_dir(&path).unwrap();
        }
    }

    fn look(&self) -> Facts {
        self.look_having_known(None)
    }
}

#[test]
fn a_whole_super_disk_is_seen_whole() {
    let facts = Node::new().look();
    let mirror = facts.mirror.unwrap();
    assert_eq!((mirror.name.as_str(), mirror.bytes), ("md201", 1 << 30));
    assert_eq!(mirror.sync.action, SyncAction::Idle);
    let (durable, fast) = (mirror.durable.unwrap(), mirror.fast.unwrap());
    assert_eq!((durable.device.as_str(), durable.slot), ("sdb", Some(0)));
    assert!(durable.flags.write_mostly && durable.in_sync());
    assert_eq!((durable.traffic.reads, durable.traffic.write_ms), (12, 90));
    assert_eq!((fast.device.as_str(), fast.traffic.read_ms), ("md200", 45));
    assert_eq!(
        (mirror.knobs.sync_speed_min, mirror.knobs.sync_ends_early),
        (65_536, false)
    );
    let stripe = facts.stripe.unwrap();
    assert!(stripe.whole());
    let members: Vec<&str> = stripe
        .members
        .iter()
        .map(|one| one.device.as_str())
        .collect();
    assert_eq!(members, ["nvme0n1", "nvme1n1"]);
    assert_eq!(facts.local_found, 2);
    let mount = facts.mount.unwrap();
    assert_eq!(
        (mount.device.as_str(), mount.filesystem.as_str()),
        ("md201", "xfs")
    );
}

#[test]
fn a_rebuild_is_seen_with_its_progress() {
    let node = Node::new();
    node.md("md201", "sync_action", "recover\n");
    node.md("md201", "sync_completed", "12288 / 1048576\n");
    node.md("md201", "sync_speed", "180000\n");
    node.md("md201", "dev-md200/state", "spare\n");
    let mirror = node.look().mirror.unwrap();
    assert_eq!(mirror.sync.progress, Some((12_288, 1_048_576)));
    assert_eq!(mirror.sync.kib_per_second, 180_000);
    assert!(!mirror.fast.unwrap().in_sync());
}

#[test]
fn a_pulled_local_disk_is_seen_before_md_notices() {
    let mut node = Node::new();
    node.unplug("nvme1n1");
    let facts = node.look();
    let stripe = facts.stripe.unwrap();
    assert!(!stripe.broken && !stripe.whole());
    assert_eq!(facts.local_found, 1);
}

#[test]
fn what_md_has_against_a_leg_is_seen() {
    let node = Node::new();
    node.md(
        "md201",
        "dev-md200/state",
        "in_sync,write_error,want_replacement\n",
    );
    node.md("md201", "dev-md200/errors", "24\n");
    node.md("md201", "dev-md200/bad_blocks", "4096 8\n8192 16\n");
    node.md("md201", "dev-sdb/state", "faulty,write_mostly\n");
    node.md("md201", "dev-sdb/slot", "none\n");
    let mirror = node.look().mirror.unwrap();
    let fast = mirror.fast.unwrap();
    assert_eq!(
        (
            fast.healed_sectors,
            fast.bad_sectors,
            fast.flags.write_error
        ),
        (24, 24, true)
    );
    let durable = mirror.durable.unwrap();
    let faulty = Flags {
        faulty: true,
        write_mostly: true,
        ..Flags::default()
    };
    assert_eq!((durable.flags, durable.slot), (faulty, None));
}

#[test]
fn a_durable_device_that_is_gone_is_still_a_member() {
    let mut node = Node::new();
    node.unplug("sdb");
    let mirror = node.look().mirror.unwrap();
    assert!(!mirror.durable.unwrap().present);
}

#[test]
fn another_volumes_mirror_on_the_same_local_disks_is_not_taken_for_ours() {
    let mut node = Node::new();
    node.file("proc/self/mountinfo", "");
    node.unplug("sdb");
    let facts = node.look();
    assert_eq!((facts.mirror, facts.stripe), (None, None));
    assert_eq!(facts.local_found, 0);
    let known = node.look_having_known(Some("md201"));
    assert_eq!(known.mirror.unwrap().name, "md201");
    assert_eq!(known.stripe.unwrap().name, "md200");
}

#[test]
fn what_cannot_be_read_of_an_array_is_an_error_and_not_nothing() {
    for (file, durable_is_there) in [
        ("sys/devices/md200/holders", false),
        ("sys/devices/md201/md/level", true),
        ("sys/devices/md201/md/dev-md200/recovery_start", true),
    ] {
        let mut node = Node::new();
        node.file("proc/self/mountinfo", "");
        if !durable_is_there {
            node.unplug("sdb");
        }
        node.spoil(file);
        let seen = node.try_to_look(Some("md201"));
        let error = match seen {
            Ok(facts) => panic!("{file}: {facts:?}"),
            Err(error) => error.to_string(),
        };
        let name = file.rsplit('/').next().unwrap();
        assert!(error.ends_with(name), "{error}");
    }
}

#[test]
fn nothing_is_said_to_run_while_a_device_does_not_say_what_uses_it() {
    let node = Node::new();
    let unseen = || {
        let root = node.root.path();
        unseen(&Node::request(), root, &node).unwrap()
    };
    assert_eq!(unseen(), None);
    node.spoil("sys/devices/sdb/holders");
    let (path, _) = unseen().unwrap();
    assert_eq!(path, Path::new("/dev/sdb"));
}

#[test]
fn a_stripe_that_broke_is_seen() {
    let node = Node::new();
    node.md("md200", "array_state", "broken\n");
    assert!(node.look().stripe.unwrap().broken);
}
