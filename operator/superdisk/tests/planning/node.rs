//! A world as the program sees it: a folder like `/`, and devices that are read. Also its form as text, for the
//! folders in `tests/fixtures`.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use superdisk::{
    inventory::{self, Blocks, Inventory, Tried},
    model::DeviceNumber,
    spec::Spec,
    sysfs::{NodeKind, Nodes},
};
use tempfile::TempDir;

use crate::{
    bytes::{BLOCK, Sparse},
    world::{Kind, Member, MemberState, World},
};

/// What is in the folder: text of files, targets of links, and folders that may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tree(pub(crate) BTreeMap<String, Entry>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    File(String),
    Link(String),
    Folder,
}

/// A disk as it is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) size: u64,
    pub(crate) bytes: Sparse,
    pub(crate) dead: bool,
    pub(crate) bad: Vec<u64>,
}

/// A folder with the tree in it, and the disks.
#[derive(Debug)]
pub(crate) struct Node {
    root: TempDir,
    disks: BTreeMap<String, Image>,
}

const MAJOR: u32 = 259;
const MD_MAJOR: u32 = 9;

impl Node {
    pub(crate) fn new(tree: &Tree, disks: &BTreeMap<String, Image>) -> Self {
        // In memory where there is such a place: thousands of small files are made.
        let memory = TempDir::new_in("/dev/shm");
        let root = memory.or_else(|_| TempDir::new()).unwrap();
        for (path, entry) in &tree.0 {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match entry {
                Entry::File(text) => fs::write(path, format!("{text}\n")).unwrap(),
                Entry::Link(target) => symlink(target, path).unwrap(),
                Entry::Folder => fs::create_dir_all(path).unwrap(),
            }
        }
        Self {
            root,
            disks: disks.clone(),
        }
    }

    pub(crate) fn observe(&self, spec: &Spec, tried: &Tried) -> Inventory {
        inventory::observe(spec, self.root.path(), self, tried).unwrap()
    }
}

impl Nodes for Node {
    /// Device nodes are files with their number in them.
    fn kind(&self, path: &Path) -> io::Result<NodeKind> {
        let text = fs::read_to_string(fs::canonicalize(path)?)?;
        let (major, minor) = text.trim().split_once(':').unwrap();
        Ok(NodeKind::Block(DeviceNumber {
            major: major.parse().unwrap(),
            minor: minor.parse().unwrap(),
        }))
    }
}

impl Blocks for Node {
    fn read(&self, path: &Path, at: u64, len: u64) -> io::Result<Vec<u8>> {
        let path = fs::canonicalize(path)?;
        let name = path.file_name().unwrap().to_str().unwrap();
        let disk = &self.disks[name];
        if disk.dead {
            return Err(io::Error::other("No data available"));
        }
        let pages = at / BLOCK..(at + len).div_ceil(BLOCK);
        if disk.bad.iter().any(|page| pages.contains(page)) {
            return Err(io::Error::other("Input/output error"));
        }
        Ok(disk.bytes.read(at, len.min(disk.size.saturating_sub(at))))
    }
}

/// The folder of a world.
pub(crate) fn tree(world: &World) -> Tree {
    let mut tree = Tree::default();
    let mut file = |path: String, text: String| {
        tree.0.insert(path, Entry::File(text));
    };
    file("proc/sys/kernel/osrelease".into(), world.release.clone());
    file(
        "proc/mdstat".into(),
        format!("Personalities : {}", world.personalities),
    );
    let uuid = |byte: u8| format!("{byte:02x}").repeat(16);
    file("proc/sys/kernel/random/boot_id".into(), uuid(world.boot));
    file("sys/class/dmi/id/product_uuid".into(), uuid(world.machine));
    file(
        "proc/sys/kernel/random/uuid".into(),
        uuid(world.fresh.wrapping_add(100)),
    );
    let mounts = world.mounts.iter().map(|(array, at)| {
        let minor = world.arrays[array].minor;
        format!(
            "30 22 {MD_MAJOR}:{minor} / {} rw - ext4 /dev/{array} rw\n",
            at.display()
        )
    });
    let mounts: String = mounts.collect();
    file(
        "proc/self/mountinfo".into(),
        format!("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n{mounts}")
            .trim_end()
            .to_owned(),
    );
    if !world.node_mounts.is_empty() {
        let lines = world.node_mounts.iter().map(|(name, at)| {
            let number = match world.arrays.get(name) {
                Some(array) => format!("{MD_MAJOR}:{}", array.minor),
                None => format!("{MAJOR}:{}", world.disks[name].minor),
            };
            format!(
                "31 22 {number} / {} rw - ext4 /dev/{name} rw\n",
                at.display()
            )
        });
        let lines: String = lines.collect();
        file("host/proc/1/mountinfo".into(), lines.trim_end().to_owned());
    }
    for (name, disk) in &world.disks {
        block(&mut tree, world, name, MAJOR, disk.minor, disk.size);
        let serial = format!("sys/dev/block/{MAJOR}:{}/serial", disk.minor);
        tree.0.insert(serial, Entry::File(disk.by_id.clone()));
        if let Some(millis) = disk.wait_millis {
            let file = format!("sys/dev/block/{MAJOR}:{}/queue/io_timeout", disk.minor);
            tree.0.insert(file, Entry::File(millis.to_string()));
        }
        if let Some(model) = &disk.model {
            let file = format!("sys/dev/block/{MAJOR}:{}/device/model", disk.minor);
            tree.0.insert(file, Entry::File(model.clone()));
        }
        let link = format!("dev/disk/by-id/{}", disk.by_id);
        tree.0.insert(link, Entry::Link(format!("../../{name}")));
    }
    for (name, array) in &world.arrays {
        block(&mut tree, world, name, MD_MAJOR, array.minor, array.bytes);
        md(&mut tree, world, name);
    }
    tree
}

fn block(tree: &mut Tree, world: &World, name: &str, major: u32, minor: u32, size: u64) {
    let mut put = |path: String, entry: Entry| {
        tree.0.insert(path, entry);
    };
    let number = format!("{major}:{minor}");
    put(format!("dev/{name}"), Entry::File(number.clone()));
    put(format!("sys/block/{name}/dev"), Entry::File(number.clone()));
    put(
        format!("sys/block/{name}/size"),
        Entry::File((size / 512).to_string()),
    );
    let folder = format!("sys/dev/block/{number}");
    put(
        format!("{folder}/uevent"),
        Entry::File(format!("DEVNAME={name}")),
    );
    put(
        format!("{folder}/size"),
        Entry::File((size / 512).to_string()),
    );
    put(format!("{folder}/ro"), Entry::File("0".into()));
    for folder in [folder, format!("sys/block/{name}")] {
        put(format!("{folder}/holders"), Entry::Folder);
        let arrays = world.arrays.iter().filter(|(_, array)| {
            members(&array.kind)
                .iter()
                .any(|member| member.name == name)
        });
        let others = world.holders.iter().filter(|(disk, _)| disk == name);
        let holders = arrays
            .map(|(holder, _)| holder)
            .chain(others.map(|(_, holder)| holder));
        for holder in holders {
            put(format!("{folder}/holders/{holder}"), Entry::Folder);
        }
    }
}

fn members(kind: &Kind) -> Vec<Member> {
    let whole = |name: &String| Member {
        name: name.clone(),
        state: MemberState::InSync,
        write_mostly: false,
    };
    match kind {
        Kind::Stripe(disks) | Kind::Inactive(disks) => disks.iter().map(whole).collect(),
        Kind::Mirror(durable, fast) => durable.iter().chain(fast).cloned().collect(),
    }
}

fn md(tree: &mut Tree, world: &World, name: &str) {
    let array = &world.arrays[name];
    let members = members(&array.kind);
    let recovering = members
        .iter()
        .any(|member| member.state == MemberState::Recovering);
    let (level, state, sync) = match &array.kind {
        Kind::Stripe(_) if array.broken => ("raid0", "broken", None),
        Kind::Stripe(_) => ("raid0", "clean", None),
        Kind::Mirror(..) if array.resync => ("raid1", "read-auto", Some("resync")),
        Kind::Mirror(..) if recovering => ("raid1", "clean", Some("recover")),
        Kind::Mirror(..) => ("raid1", "clean", Some("idle")),
        Kind::Inactive(_) => ("", "inactive", None),
    };
    let mut put = |path: &str, text: String| {
        tree.0
            .insert(format!("sys/block/{name}/{path}"), Entry::File(text));
    };
    put("md/array_state", state.to_owned());
    put("md/level", level.to_owned());
    put("md/raid_disks", "2".to_owned());
    if let Some(sync) = sync {
        put("md/sync_action", sync.to_owned());
        put("md/component_size", (array.bytes / 1024).to_string());
        let start = if array.resync { "0" } else { "none" };
        put("md/resync_start", start.to_owned());
    }
    for (knob, value) in &array.knobs {
        put(knob.file(), value.to_string());
    }
    for (slot, member) in members.iter().enumerate() {
        let folder = format!("md/dev-{}", member.name);
        let mut flags = match member.state {
            MemberState::InSync => "in_sync",
            MemberState::Recovering => "spare",
            MemberState::Faulty => "faulty",
        }
        .to_owned();
        if member.write_mostly {
            flags += ",write_mostly";
        }
        put(&format!("{folder}/state"), flags);
        put(&format!("{folder}/slot"), slot.to_string());
        put(&format!("{folder}/bad_blocks"), String::new());
        let number = match world.arrays.get(&member.name) {
            Some(stripe) => Some(format!("{MD_MAJOR}:{}", stripe.minor)),
            None => world
                .disks
                .get(&member.name)
                .map(|disk| format!("{MAJOR}:{}", disk.minor)),
        };
        if let Some(number) = number {
            put(&format!("{folder}/block/dev"), number);
            put(
                &format!("{folder}/block/holders/{name}/uevent"),
                String::new(),
            );
        }
    }
}

/// The disks of a world.
pub(crate) fn images(world: &World) -> BTreeMap<String, Image> {
    let disks = world.disks.iter().map(|(name, disk)| {
        let image = Image {
            size: disk.size,
            bytes: disk.bytes.clone(),
            dead: disk.dead,
            bad: disk.bad.clone(),
        };
        (name.clone(), image)
    });
    disks.collect()
}

pub(crate) fn node(world: &World) -> Node {
    Node::new(&tree(world), &images(world))
}

/// `path: text`, `path -> target`, `path/`; further lines of a text begin with a tab.
pub(crate) fn write_tree(tree: &Tree) -> String {
    let mut text = String::new();
    for (path, entry) in &tree.0 {
        match entry {
            Entry::File(content) => {
                writeln!(text, "{path}: {}", content.replace('\n', "\n\t")).unwrap();
            }
            Entry::Link(target) => writeln!(text, "{path} -> {target}").unwrap(),
            Entry::Folder => writeln!(text, "{path}/").unwrap(),
        }
    }
    text
}

pub(crate) fn read_tree(text: &str) -> Tree {
    let mut tree = Tree::default();
    for line in text.replace("\n\t", "\t").lines() {
        let (path, entry) = if let Some((path, target)) = line.split_once(" -> ") {
            (path, Entry::Link(target.to_owned()))
        } else if let Some((path, content)) = line.split_once(": ") {
            (path, Entry::File(content.replace('\t', "\n")))
        } else {
            (line.strip_suffix('/').unwrap(), Entry::Folder)
        };
        tree.0.insert(path.to_owned(), entry);
    }
    tree
}

/// Per disk its size, then each line of 32 bytes that are not all zero.
pub(crate) fn write_images(disks: &BTreeMap<String, Image>) -> String {
    let mut text = String::new();
    for (name, disk) in disks {
        let dead = if disk.dead { " dead" } else { "" };
        write!(text, "{name} {}{dead}", disk.size).unwrap();
        for page in &disk.bad {
            write!(text, " bad {page}").unwrap();
        }
        writeln!(text).unwrap();
        for (block, bytes) in &disk.bytes.0 {
            for (index, line) in bytes.chunks(32).enumerate() {
                if line.iter().any(|byte| *byte != 0) {
                    let at = block * BLOCK + 32 * index as u64;
                    let hex: String = line.iter().map(|byte| format!("{byte:02x}")).collect();
                    writeln!(text, "\t{at:x} {hex}").unwrap();
                }
            }
        }
    }
    text
}

pub(crate) fn read_images(text: &str) -> BTreeMap<String, Image> {
    let mut disks: BTreeMap<String, Image> = BTreeMap::new();
    let mut name = String::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if !line.starts_with('\t') {
            name = words[0].to_owned();
            let image = Image {
                size: words[1].parse().unwrap(),
                dead: words.contains(&"dead"),
                bad: words
                    .windows(2)
                    .filter(|pair| pair[0] == "bad")
                    .map(|pair| pair[1].parse().unwrap())
                    .collect(),
                ..Image::default()
            };
            disks.insert(name.clone(), image);
            continue;
        }
        let at = u64::from_str_radix(words[0], 16).unwrap();
        let bytes = (0..32).map(|i| u8::from_str_radix(&words[1][2 * i..2 * i + 2], 16).unwrap());
        let blocks = &mut disks.get_mut(&name).unwrap().bytes.0;
        let block = blocks
            .entry(at / BLOCK)
            .or_insert_with(|| vec![0; BLOCK as usize]);
        let inside = (at % BLOCK) as usize;
        block[inside..inside + 32].copy_from_slice(&bytes.collect::<Vec<u8>>());
    }
    disks
}

/// Where fixtures are.
pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/plan")
}
