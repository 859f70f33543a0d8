//! Layout of the disk under a folder, from the kernel: enough to tell whether figures measured on a disk still apply to
//! this one, and whether this is a time to measure. Reads sysfs, writes nothing.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use readstates_operator_api::fingerprint::fingerprint;

/// Nesting limit of disks within disks (arrays on arrays on mapped devices): deeper than any real setup.
const DEEPEST: usize = 8;

/// The disk under a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Depends on sizes and arrays only, not on the devices' current names.
    pub(super) key: String,
    /// What an array on it is doing that is not its daily work: `resync`, `recover`, `check`.
    pub(super) busy: Option<String>,
}

/// The disk under `folder`.
///
/// # Errors
/// When the kernel does not tell.
pub(super) fn of(folder: &Path) -> io::Result<Layout> {
    let device = rustix::fs::stat(folder)?.st_dev;
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let device = Path::new("/sys/dev/block").join(format!("{major}:{minor}"));
    if device.exists() {
        return Ok(read(&device));
    }
    // No device of its own, as in a container's own filesystem: its size is all there is.
    let stat = rustix::fs::statvfs(folder)?;
    Ok(Layout {
        key: fingerprint(&(stat.f_blocks, stat.f_frsize)),
        busy: None,
    })
}

/// By a device's folder in sysfs.
fn read(device: &Path) -> Layout {
    let mut lines = Vec::new();
    let mut busy = None;
    walk(device, 0, &mut lines, &mut busy);
    Layout {
        key: fingerprint(&lines),
        busy,
    }
}

fn walk(device: &Path, depth: usize, lines: &mut Vec<String>, busy: &mut Option<String>) {
    let word = |path: &str| {
        let text = fs::read_to_string(device.join(path)).unwrap_or_default();
        text.trim().to_owned()
    };
    lines.push(format!(
        "{depth} {} sectors, rotates {:?}, {:?} of {:?}",
        word("size"),
        word("queue/rotational"),
        word("md/level"),
        word("md/raid_disks"),
    ));
    let action = word("md/sync_action");
    if !matches!(action.as_str(), "" | "idle" | "frozen") {
        *busy = Some(action);
    }
    if depth == DEEPEST {
        return;
    }
    let below = fs::read_dir(device.join("slaves"));
    let below = below.into_iter().flatten().flatten().map(|e| e.path());
    // Devices are called as they come up: what they are must not depend on it.
    let mut parts: Vec<Vec<String>> = below
        .map(|part| {
            let mut lines = Vec::new();
            walk(&part, depth + 1, &mut lines, busy);
            lines
        })
        .collect();
    parts.sort();
    lines.extend(parts.into_iter().flatten());
}

/// The file with figures of the disk under `data`, for an engine that measures them first where there is none. `None`
/// while a measurement could not be trusted: then it starts without, and a later start measures.
pub(super) fn figures(data: &Path, layout: &Layout) -> Option<PathBuf> {
    let file = data.join(format!(".readstates-io-{}.yaml", layout.key));
    (file.exists() || layout.busy.is_none()).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sys(tempfile::TempDir);

    impl Sys {
        /// A mirror of a striped array and a network disk, as it is called on this boot.
        fn super_disk(names: [&str; 5], sectors: u64, action: &str) -> Self {
            let sys = Self(tempfile::tempdir().unwrap());
            let [mirror, stripe, local_1, local_2, network] = names;
            sys.device(mirror, sectors, &[stripe, network]);
            sys.array(mirror, "raid1", 2, action);
            sys.device(stripe, sectors, &[local_1, local_2]);
            sys.array(stripe, "raid0", 2, "");
            sys.device(local_1, sectors / 2, &[]);
            sys.device(local_2, sectors / 2, &[]);
            sys.device(network, sectors, &[]);
            sys
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn device(&self, name: &str, sectors: u64, slaves: &[&str]) {
            let path = self.path(name);
            fs::create_dir_all(path.join("slaves")).unwrap();
            fs::write(path.join("size"), format!("{sectors}\n")).unwrap();
            for slave in slaves {
                let link = path.join("slaves").join(slave);
                std::os::unix::fs::symlink(self.path(slave), link).unwrap();
            }
        }

        fn array(&self, name: &str, level: &str, disks: u32, action: &str) {
            let md = self.path(name).join("md");
            fs::create_dir(&md).unwrap();
            for (file, text) in [
                ("level", level.to_owned()),
                ("raid_disks", disks.to_string()),
                ("sync_action", action.to_owned()),
            ] {
                fs::write(md.join(file), text + "\n").unwrap();
            }
        }

        fn layout(&self, name: &str) -> Layout {
            read(&self.path(name))
        }
    }

    const TODAY: [&str; 5] = ["md127", "md126", "nvme0n1", "nvme1n1", "sdb"];

    #[test]
    fn a_layout_is_the_same_whatever_its_devices_are_called() {
        let tomorrow = ["md0", "md1", "nvme1n1", "nvme0n1", "aaa"];
        let today = Sys::super_disk(TODAY, 4096, "idle").layout("md127");
        assert_eq!(Sys::super_disk(tomorrow, 4096, "idle").layout("md0"), today);
        assert_eq!(today.busy, None);
    }

    #[test]
    fn another_size_or_another_disk_below_is_another_layout() {
        let sys = Sys::super_disk(TODAY, 4096, "idle");
        let keys = ["md127", "md126", "sdb", "nvme0n1"].map(|name| sys.layout(name).key);
        let other = Sys::super_disk(TODAY, 8192, "idle").layout("md127").key;
        let mut all: Vec<_> = keys.into_iter().chain([other]).collect();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 5);
    }

    #[test]
    fn an_array_that_copies_or_checks_is_busy_and_still_the_same_layout() {
        let idle = Sys::super_disk(TODAY, 4096, "idle").layout("md127");
        for action in ["resync", "recover", "check"] {
            let busy = Sys::super_disk(TODAY, 4096, action).layout("md127");
            assert_eq!(busy.busy.as_deref(), Some(action));
            assert_eq!(busy.key, idle.key);
        }
    }

    #[test]
    fn any_folder_has_a_layout() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(of(dir.path()).unwrap(), of(dir.path()).unwrap());
        assert!(of(Path::new("/nowhere/at/all")).is_err());
    }

    #[test]
    fn a_disk_is_measured_once_for_each_layout_and_never_while_it_resyncs() {
        let dir = tempfile::tempdir().unwrap();
        let layout = |key: &str, busy: Option<&str>| Layout {
            key: key.to_owned(),
            busy: busy.map(str::to_owned),
        };
        let figures = |key, busy| figures(dir.path(), &layout(key, busy));
        assert_eq!(figures("one", Some("resync")), None);
        let file = figures("one", None).unwrap();
        assert_eq!(file, dir.path().join(".readstates-io-one.yaml"));
        // Measured: valid as long as the layout is the same, whatever the array does.
        std::fs::write(&file, "disks: []").unwrap();
        assert_eq!(figures("one", Some("resync")), Some(file));
        assert_eq!(figures("two", Some("resync")), None);
        assert!(figures("two", None).is_some());
    }
}
