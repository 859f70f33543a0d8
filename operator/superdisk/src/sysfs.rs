//! Observes a node: kernel, md personalities, device nodes and their users, from procfs, sysfs and `/lib/modules`.
//! Reads only, starts no program, opens no device.
//!
//! Everything is read under a root folder, `/` unless the node's file system is mounted elsewhere. Device
//! nodes are looked up through [`Nodes`], because only root can make them and tests do not want to.

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
};

use crate::{
    model::{
        Candidate, Device, DeviceNumber, Kernel, Node, Personality, Request, Seen, Survey, System,
        Use,
    },
    node_setup,
};

/// Unit of `size`, `sync_completed` and `bad_blocks` in sysfs, whatever the device's own sector size.
pub const SECTOR_BYTES: u64 = 512;

/// What a path in `/dev` is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// A block device with this number.
    Block(DeviceNumber),
    /// Anything else, said in words.
    Other(String),
}

/// `/dev/NAME` of the device that a path leads to: a volume's path exists in its pod's container alone.
pub(crate) fn kernel_node(path: &Path) -> Option<PathBuf> {
    let Ok(NodeKind::Block(number)) = FileSystem.kind(path) else {
        return None;
    };
    let folder = fs::canonicalize(format!("/sys/dev/block/{number}")).ok()?;
    Some(Path::new("/dev").join(folder.file_name()?))
}

/// Finds out what a path in `/dev` is, links followed.
pub trait Nodes {
    /// What is at `path`; an error of kind `NotFound` when nothing is.
    fn kind(&self, path: &Path) -> io::Result<NodeKind>;
}

/// The nodes of the file system.
#[derive(Clone, Copy, Debug)]
pub struct FileSystem;

impl Nodes for FileSystem {
    fn kind(&self, path: &Path) -> io::Result<NodeKind> {
        let metadata = fs::metadata(path)?;
        let kind = metadata.file_type();
        if kind.is_block_device() {
            let number = metadata.rdev();
            return Ok(NodeKind::Block(DeviceNumber {
                major: rustix::fs::major(number),
                minor: rustix::fs::minor(number),
            }));
        }
        let words = if kind.is_dir() {
            "a folder"
        } else if kind.is_file() {
            "a plain file"
        } else if kind.is_char_device() {
            "a character device"
        } else {
            "a socket or pipe"
        };
        Ok(NodeKind::Other(words.to_owned()))
    }
}

/// Why a node cannot even be looked at.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// A file that every Linux has could not be read.
    #[error("failed to read {path}")]
    Read {
        /// Which one.
        path: PathBuf,
        source: io::Error,
    },
    /// A pattern of `--local` is not one.
    #[error("failed to understand the pattern {pattern}")]
    Pattern {
        /// Which one.
        pattern: String,
        source: glob::PatternError,
    },
}

/// Looks at everything that `request` is about.
pub fn observe(request: &Request, root: &Path, nodes: &dyn Nodes) -> Result<Survey, ObserveError> {
    let look = Look {
        root,
        nodes,
        mounts: mounts(root)?,
        swaps: swaps(root)?,
    };
    let durable = request.durable.as_ref().map(|path| look.candidate(path));
    let mut local: Vec<Candidate> = Vec::new();
    for path in local_paths(request, root)? {
        let candidate = look.candidate(&path);
        // Several links may lead to one device: it counts once.
        let known = matches!(&candidate.node, Seen::Present(_))
            && local.iter().any(|other| other.node == candidate.node);
        if !known {
            local.push(candidate);
        }
    }
    Ok(Survey {
        kernel: kernel(root)?,
        durable,
        local,
        assembling_rules: node_setup::assembling_rules(root),
    })
}

/// The paths that names and patterns of `--local` lead to, without `root`, in order, each once.
fn local_paths(request: &Request, root: &Path) -> Result<BTreeSet<PathBuf>, ObserveError> {
    let mut paths = BTreeSet::new();
    for pattern in &request.local {
        if !pattern.contains(['*', '?', '[']) {
            paths.insert(PathBuf::from(pattern));
            continue;
        }
        let escaped = glob::Pattern::escape(&root.to_string_lossy());
        let whole = format!(
            "{}/{}",
            escaped.trim_end_matches('/'),
            pattern.trim_start_matches('/')
        );
        let matches = glob::glob(&whole).map_err(|source| ObserveError::Pattern {
            pattern: pattern.clone(),
            source,
        })?;
        for found in matches {
            let found = found.map_err(|error| ObserveError::Read {
                path: error.path().to_owned(),
                source: error.into(),
            })?;
            let inside = found.strip_prefix(root).unwrap_or(&found);
            paths.insert(Path::new("/").join(inside));
        }
    }
    Ok(paths)
}

/// What all candidates are looked at with.
struct Look<'a> {
    root: &'a Path,
    nodes: &'a dyn Nodes,
    mounts: Vec<Mount>,
    swaps: Vec<String>,
}

/// A line of mountinfo.
pub(crate) struct Mount {
    pub(crate) number: String,
    pub(crate) at: String,
    pub(crate) filesystem: String,
    pub(crate) source: String,
    /// Of the mount, or of the filesystem under all its mounts.
    pub(crate) read_only: bool,
}

impl Look<'_> {
    fn candidate(&self, path: &Path) -> Candidate {
        let node = match self.nodes.kind(&under(self.root, path)) {
            Ok(NodeKind::Block(number)) => self.device(number),
            Ok(NodeKind::Other(words)) => Seen::Present(Node::NotBlock(words)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Seen::Absent,
            Err(error) => Seen::Unknown(error.to_string()),
        };
        Candidate {
            path: path.to_owned(),
            node,
        }
    }

    fn device(&self, number: DeviceNumber) -> Seen<Node> {
        let folder = self.root.join(format!("sys/dev/block/{number}"));
        match self.read_device(number, &folder) {
            Ok(device) => Seen::Present(Node::Block(device)),
            // A container's node outlives the device that it was made for.
            Err(error) if is_gone(&error) && matches!(folder.try_exists(), Ok(false)) => {
                Seen::Absent
            }
            Err(error) => Seen::Unknown(format!("{}: {error}", folder.display())),
        }
    }

    fn read_device(&self, number: DeviceNumber, folder: &Path) -> io::Result<Device> {
        let name = device_name(folder)?;
        let mut uses = self.uses(&name, &number.to_string(), folder)?;
        if folder.join("partition").exists() {
            uses.push(Use::IsPartition);
        }
        for entry in fs::read_dir(folder)? {
            let part = entry?.path();
            if part.join("partition").exists() {
                let name = device_name(&part)?;
                uses.push(Use::Partition(name.clone()));
                uses.extend(self.uses(&name, &read(&part.join("dev"))?, &part)?);
            }
        }
        Ok(Device {
            name,
            number,
            bytes: number_in(&folder.join("size"))?.saturating_mul(SECTOR_BYTES),
            read_only: number_in(&folder.join("ro"))? != 0,
            uses,
        })
    }

    fn uses(&self, name: &str, number: &str, folder: &Path) -> io::Result<Vec<Use>> {
        let node = format!("/dev/{name}");
        let mounts = self
            .mounts
            .iter()
            .filter(|m| m.number == number || m.source == node);
        let mut uses: Vec<Use> = mounts.map(|m| Use::Mount(m.at.clone())).collect();
        uses.dedup();
        if self.swaps.contains(&node) {
            uses.push(Use::Swap);
        }
        for holder in fs::read_dir(folder.join("holders"))? {
            uses.push(Use::Holder(
                holder?.file_name().to_string_lossy().into_owned(),
            ));
        }
        Ok(uses)
    }
}

fn kernel(root: &Path) -> Result<Kernel, ObserveError> {
    let path = root.join("proc/sys/kernel/osrelease");
    let release = read(&path).map_err(|source| ObserveError::Read { path, source })?;
    let system = read(&root.join("etc/os-release"))
        .ok()
        .and_then(|text| system(&text));
    let raid0 = personality(root, &release, "raid0");
    let raid1 = personality(root, &release, "raid1");
    Ok(Kernel {
        release,
        system,
        raid0,
        raid1,
    })
}

fn system(os_release: &str) -> Option<System> {
    let value = |key: &str| {
        let line = os_release
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
        Some(line.trim().trim_matches(['"', '\'']).to_owned())
    };
    Some(System {
        id: value("ID")?,
        pretty_name: value("PRETTY_NAME")?,
    })
}

/// md says what it has in the first line of `/proc/mdstat`; what it could have is in `/lib/modules`.
fn personality(root: &Path, release: &str, name: &str) -> Seen<Personality> {
    let active = fs::read_to_string(root.join("proc/mdstat")).is_ok_and(|mdstat| {
        let first = mdstat
            .lines()
            .find_map(|line| line.strip_prefix("Personalities :"));
        first.is_some_and(|names| {
            names
                .split_whitespace()
                .any(|word| word == format!("[{name}]"))
        })
    });
    if active {
        return Seen::Present(Personality::Active);
    }
    let modules = root.join("lib/modules").join(release);
    let listed = |list: &str| -> io::Result<bool> {
        let text = fs::read_to_string(modules.join(list))?;
        Ok(text.lines().any(|line| is_module(line, name)))
    };
    let found =
        listed("modules.builtin").and_then(|built_in| Ok((built_in, listed("modules.dep")?)));
    match found {
        Ok((true, _)) => Seen::Present(Personality::BuiltIn),
        Ok((false, true)) => Seen::Present(Personality::Loadable),
        Ok((false, false)) => Seen::Absent,
        Err(error) => Seen::Unknown(format!("the lists in {}: {error}", modules.display())),
    }
}

/// A line of modules.builtin, or of modules.dep (`path: dependencies`), about this module, packed or not.
fn is_module(line: &str, name: &str) -> bool {
    let path = line.split(':').next().unwrap_or_default();
    let file = path.rsplit('/').next().unwrap_or_default();
    file.split_once('.')
        .is_some_and(|(stem, rest)| stem == name && rest.starts_with("ko"))
}

/// The node's own mounts and ours: a device mounted in either is in use.
fn mounts(root: &Path) -> Result<Vec<Mount>, ObserveError> {
    let node = node_mounts(root)?;
    Ok(node.into_iter().chain(own_mounts(root)?).collect())
}

/// What this process sees mounted.
pub(crate) fn own_mounts(root: &Path) -> Result<Vec<Mount>, ObserveError> {
    let path = root.join("proc/self/mountinfo");
    match fs::read_to_string(&path) {
        Ok(text) => Ok(text.lines().filter_map(mount).collect()),
        Err(source) => Err(ObserveError::Read { path, source }),
    }
}

/// What the node itself sees mounted: its process 1. A pod has a process 1 of its own, and the node's `/proc` at
/// `/host/proc`. A list that is there and cannot be read is an error: a device that the node has mounted would seem free.
pub(crate) fn node_mounts(root: &Path) -> Result<Vec<Mount>, ObserveError> {
    for process in ["host/proc/1", "proc/1"] {
        if let Some(text) = read_if_there(&root.join(process).join("mountinfo"))? {
            return Ok(text.lines().filter_map(mount).collect());
        }
    }
    Ok(Vec::new())
}

/// A file of procfs; `None` when there is none.
fn read_if_there(path: &Path) -> Result<Option<String>, ObserveError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ObserveError::Read {
            path: path.to_owned(),
            source,
        }),
    }
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw`; see proc_pid_mountinfo(5).
pub(crate) fn mount(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let before: Vec<&str> = before.split(' ').collect();
    let after: Vec<&str> = after.split(' ').collect();
    let [_, _, number, _, at, options, ..] = before[..] else {
        return None;
    };
    let [filesystem, source, ref over @ ..] = after[..] else {
        return None;
    };
    let mut options = [options].into_iter().chain(over.iter().copied());
    Some(Mount {
        number: number.to_owned(),
        at: at.replace("\\040", " "),
        filesystem: filesystem.to_owned(),
        source: source.to_owned(),
        read_only: options.any(|list| list.split(',').any(|one| one == "ro")),
    })
}

/// Absent when the kernel has no swap, which is then not used either.
fn swaps(root: &Path) -> Result<Vec<String>, ObserveError> {
    let text = read_if_there(&root.join("proc/swaps"))?.unwrap_or_default();
    let lines = text
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next());
    Ok(lines.map(str::to_owned).collect())
}

/// What sysfs answers for something that is not there, or is being taken away: md says "busy" then. No other error says
/// that nothing is there.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    let going = [rustix::io::Errno::NODEV, rustix::io::Errno::BUSY];
    let code = error.raw_os_error();
    error.kind() == io::ErrorKind::NotFound
        || going.iter().any(|one| code == Some(one.raw_os_error()))
}

/// The names in a folder of sysfs; none when it is gone.
pub(crate) fn names_in(folder: &Path) -> io::Result<Vec<String>> {
    let listed = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    match listed {
        Ok(entries) => Ok(entries
            .iter()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect()),
        Err(error) if is_gone(&error) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn device_name(folder: &Path) -> io::Result<String> {
    let uevent = read(&folder.join("uevent"))?;
    let name = uevent
        .lines()
        .find_map(|line| line.strip_prefix("DEVNAME="));
    name.map(str::to_owned)
        .ok_or_else(|| io::Error::other("uevent has no DEVNAME"))
}

pub(crate) fn number_in(path: &Path) -> io::Result<u64> {
    let text = read(path)?;
    text.parse()
        .map_err(|_| io::Error::other(format!("{} is not a number: {text}", path.display())))
}

pub(crate) fn read(path: &Path) -> io::Result<String> {
    Ok(fs::read_to_string(path)?.trim().to_owned())
}

pub(crate) fn under(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}
