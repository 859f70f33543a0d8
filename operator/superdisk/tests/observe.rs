//! Observing a node, over folders that look like one.

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
    model::{Candidate, Device, DeviceNumber, Node, Personality, Request, Seen, System, Use},
    preflight, report,
    sysfs::{self, NodeKind, Nodes},
};
use tempfile::TempDir;

/// A node's file system in a folder, with its device nodes beside it.
struct World {
    root: TempDir,
    nodes: BTreeMap<PathBuf, NodeKind>,
}

impl Nodes for World {
    fn kind(&self, path: &Path) -> io::Result<NodeKind> {
        let path = fs::canonicalize(path)?;
        let words = NodeKind::Other("a plain file".to_owned());
        Ok(self.nodes.get(&path).cloned().unwrap_or(words))
    }
}

impl World {
    fn new(release: &str) -> Self {
        let world = Self {
            root: TempDir::new().unwrap(),
            nodes: BTreeMap::new(),
        };
        world.file("proc/sys/kernel/osrelease", &format!("{release}\n"));
        world.file(
            "proc/self/mountinfo",
            "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n",
        );
        world
    }

    fn file(&self, path: &str, text: &str) -> &Self {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn modules(&self, release: &str, built_in: &str, loadable: &str) -> &Self {
        self.file(&format!("lib/modules/{release}/modules.builtin"), built_in)
            .file(&format!("lib/modules/{release}/modules.dep"), loadable)
    }

    fn disk(&mut self, name: &str, number: (u32, u32), holders: &[&str]) -> &mut Self {
        let (major, minor) = number;
        let folder = format!("sys/dev/block/{major}:{minor}");
        self.file(
            &format!("{folder}/uevent"),
            &format!("MAJOR={major}\nDEVNAME={name}\n"),
        )
        .file(&format!("{folder}/size"), "2097152\n")
        .file(&format!("{folder}/ro"), "0\n")
        .file(&format!("dev/{name}"), "");
        fs::create_dir(self.root.path().join(&folder).join("holders")).unwrap();
        for holder in holders {
            self.file(&format!("{folder}/holders/{holder}"), "");
        }
        let node = fs::canonicalize(self.root.path().join("dev").join(name)).unwrap();
        self.nodes
            .insert(node, NodeKind::Block(DeviceNumber { major, minor }));
        self
    }

    fn link(&self, path: &str, target: &str) -> &Self {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
        self
    }

    fn observe(&self, request: &Request) -> superdisk::model::Survey {
        sysfs::observe(request, self.root.path(), self).unwrap()
    }
}

fn device(path: &str, name: &str, number: (u32, u32), uses: &[Use]) -> Candidate {
    Candidate {
        path: path.into(),
        node: Seen::Present(Node::Block(Device {
            name: name.to_owned(),
            number: DeviceNumber {
                major: number.0,
                minor: number.1,
            },
            bytes: 1 << 30,
            read_only: false,
            uses: uses.to_vec(),
        })),
    }
}

fn local(patterns: &[&str], local_count: usize) -> Request {
    let local = patterns
        .iter()
        .map(|pattern| (*pattern).to_owned())
        .collect();
    Request {
        durable: None,
        local,
        local_count,
    }
}

#[test]
fn personalities_are_found_wherever_the_kernel_keeps_them() {
    let built_in = "kernel/drivers/md/raid0.ko\nkernel/drivers/md/raid10.ko\n";
    let packed = "kernel/drivers/md/raid0.ko.zst:\nkernel/drivers/md/raid1.ko.zst: kernel/x.ko\n";
    let mdstat = "Personalities : [raid0] [raid1] \nunused devices: <none>\n";
    let (active, loadable) = (Personality::Active, Personality::Loadable);
    for (title, built_in, dep, mdstat, want) in [
        (
            "active",
            "",
            "",
            mdstat,
            [Seen::Present(active), Seen::Present(active)],
        ),
        (
            "built in",
            built_in,
            "",
            "",
            [Seen::Present(Personality::BuiltIn), Seen::Absent],
        ),
        (
            "packed",
            "",
            packed,
            "",
            [Seen::Present(loadable), Seen::Present(loadable)],
        ),
        (
            "neither",
            "",
            "",
            "Personalities : [raid10]\n",
            [Seen::Absent, Seen::Absent],
        ),
    ] {
        let world = World::new("6.1.0");
        world
            .modules("6.1.0", built_in, dep)
            .file("proc/mdstat", mdstat);
        let kernel = world.observe(&Request::default()).kernel;
        assert_eq!([kernel.raid0, kernel.raid1], want, "{title}");
    }
}

#[test]
fn modules_that_cannot_be_read_are_unknown() {
    let world = World::new("6.1.0");
    world.file(
        "etc/os-release",
        "ID=cos\nPRETTY_NAME=\"Container-Optimized OS\"\n",
    );
    let kernel = world.observe(&Request::default()).kernel;
    assert!(matches!(kernel.raid1, Seen::Unknown(_)), "{kernel:?}");
    let system = System {
        id: "cos".to_owned(),
        pretty_name: "Container-Optimized OS".to_owned(),
    };
    assert_eq!(kernel.system, Some(system));
}

#[test]
fn a_pattern_finds_each_device_once() {
    let mut world = World::new("6.1.0");
    world
        .disk("nvme0n1", (259, 0), &[])
        .disk("nvme1n1", (259, 1), &[])
        .disk("sda", (8, 0), &[]);
    world
        .link("dev/disk/by-id/google-local-nvme-ssd-0", "../../nvme0n1")
        .link("dev/disk/by-id/google-local-nvme-ssd-1", "../../nvme1n1")
        .link("dev/disk/by-id/nvme-nvme_card0", "../../nvme0n1");
    let request = local(
        &[
            "/dev/disk/by-id/google-local-nvme-ssd-*",
            "/dev/disk/by-id/nvme-*",
        ],
        2,
    );
    assert_eq!(
        world.observe(&request).local,
        [
            device(
                "/dev/disk/by-id/google-local-nvme-ssd-0",
                "nvme0n1",
                (259, 0),
                &[]
            ),
            device(
                "/dev/disk/by-id/google-local-nvme-ssd-1",
                "nvme1n1",
                (259, 1),
                &[]
            ),
        ]
    );
}

#[test]
fn mounts_swap_holders_and_partitions_are_uses() {
    let mut world = World::new("6.1.0");
    world
        .disk("sda", (8, 0), &[])
        .disk("sdb", (8, 16), &["md127"])
        .disk("sdc", (8, 32), &[]);
    world.disk("sdd", (8, 48), &[]);
    let part = "sys/dev/block/8:0/sda1";
    world
        .file(&format!("{part}/partition"), "1\n")
        .file(&format!("{part}/uevent"), "DEVNAME=sda1\n")
        .file(&format!("{part}/dev"), "8:1\n")
        .file(
            "proc/1/mountinfo",
            "30 22 0:44 / /mnt/a\\040b rw shared:1 - btrfs /dev/sdd rw\n",
        )
        .file(
            "proc/swaps",
            "Filename Type Size Used Priority\n/dev/sdc partition 1 0 -2\n",
        );
    fs::create_dir(world.root.path().join(part).join("holders")).unwrap();
    let mounted = |at: &str| Use::Mount(at.to_owned());
    assert_eq!(
        world.observe(&local(&["/dev/sd?"], 4)).local,
        [
            device(
                "/dev/sda",
                "sda",
                (8, 0),
                &[Use::Partition("sda1".to_owned()), mounted("/")]
            ),
            device(
                "/dev/sdb",
                "sdb",
                (8, 16),
                &[Use::Holder("md127".to_owned())]
            ),
            device("/dev/sdc", "sdc", (8, 32), &[Use::Swap]),
            device("/dev/sdd", "sdd", (8, 48), &[mounted("/mnt/a b")]),
        ]
    );
}

#[test]
fn lists_of_what_is_in_use_that_cannot_be_read_are_not_taken_for_empty() {
    for list in [
        "host/proc/1/mountinfo",
        "proc/1/mountinfo",
        "proc/self/mountinfo",
        "proc/swaps",
    ] {
        let mut world = World::new("6.1.0");
        world.disk("sda", (8, 0), &[]);
        // A folder can be opened, and not be read.
        let path = world.root.path().join(list);
        let _ = fs::remove_file(&path);
        fs::create_dir_all(&path).unwrap();
        let error = sysfs::observe(&local(&["/dev/sda"], 1), world.root.path(), &world);
        let error = error.unwrap_err().to_string();
        assert!(error.ends_with(list), "{error}");
    }
}

#[test]
fn a_node_whose_device_the_kernel_no_longer_has_is_absent() {
    let mut world = World::new("6.1.0");
    world.disk("sda", (8, 0), &[]).disk("sdb", (8, 16), &[]);
    fs::remove_dir_all(world.root.path().join("sys/dev/block/8:0")).unwrap();
    // This one is there, and does not say what it is.
    fs::remove_file(world.root.path().join("sys/dev/block/8:16/uevent")).unwrap();
    let found = world.observe(&local(&["/dev/sd?"], 2)).local;
    assert_eq!(found[0].node, Seen::Absent);
    assert!(matches!(found[1].node, Seen::Unknown(_)), "{:?}", found[1]);
}

#[test]
fn paths_that_are_no_device_are_told_apart() {
    let world = World::new("6.1.0");
    world.file("dev/plain", "");
    let request = Request {
        durable: Some("/dev/nothing".into()),
        ..local(&["/dev/plain", "/dev/none*"], 1)
    };
    let survey = world.observe(&request);
    assert_eq!(survey.durable.unwrap().node, Seen::Absent);
    let plain = Seen::Present(Node::NotBlock("a plain file".to_owned()));
    assert_eq!(
        survey.local,
        [Candidate {
            path: "/dev/plain".into(),
            node: plain
        }]
    );
}

#[test]
fn a_good_node_is_reported_to_people_and_programs() {
    let mut world = World::new("6.1.0");
    world
        .disk("nvme0n1", (259, 0), &[])
        .disk("sdb", (8, 16), &[]);
    world.modules(
        "6.1.0",
        "kernel/drivers/md/raid0.ko",
        "kernel/drivers/md/raid1.ko: x",
    );
    let request = Request {
        durable: Some("/dev/sdb".into()),
        ..local(&["/dev/nvme[0-9]n1"], 1)
    };
    let survey = world.observe(&request);
    let refusals = preflight::decide(&request, &survey);
    assert_eq!(
        report::human(&survey, &refusals),
        "This node can carry a super-disk.\n  \
           kernel   6.1.0: raid0 built in, raid1 loadable\n  \
           durable  /dev/sdb: sdb, 1024 MiB, free\n  \
           local    /dev/nvme0n1: nvme0n1, 1024 MiB, free\n"
    );
    assert_eq!(
        report::json(&survey, &refusals).unwrap(),
        r#"{"ready":true,"kernel":{"release":"6.1.0","system":null,"raid0":"built-in","raid1":"loadable"},"#
            .to_owned()
            + r#""durable":{"path":"/dev/sdb","device":{"name":"sdb","number":"8:16","bytes":1073741824,"#
            + r#""read_only":false,"uses":[]}},"local":[{"path":"/dev/nvme0n1","device":{"name":"nvme0n1","#
            + r#""number":"259:0","bytes":1073741824,"read_only":false,"uses":[]}}],"assembling_rules":null,"refusals":[]}"#
    );
}
