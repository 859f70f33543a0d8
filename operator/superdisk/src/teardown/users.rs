//! Users of a filesystem, from `/proc`: open files, working folders, and other places where it is mounted.
//!
//! Only what this process may see: without the node's process namespace those are the pod's own.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use crate::sysfs;

/// Limit of the names that are listed: more would not help.
const MOST: usize = 8;

/// In words, such as `scylla (4711) with /data/commitlog/x`.
#[must_use]
pub fn users(root: &Path, target: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let Ok(device) = fs::metadata(target).map(|metadata| metadata.dev()) else {
        return found;
    };
    let number = format!(
        "{}:{}",
        rustix::fs::major(device),
        rustix::fs::minor(device)
    );
    let Ok(processes) = fs::read_dir(root.join("proc")) else {
        return found;
    };
    let own = own_namespace(root);
    for process in processes.flatten() {
        let name = process.file_name().to_string_lossy().into_owned();
        if found.len() >= MOST || name.parse::<u32>().is_err() {
            continue;
        }
        let folder = process.path();
        let used = used_file(&folder, device).or_else(|| mounted_elsewhere(&folder, &number, &own));
        if let Some(what) = used {
            let command = fs::read_to_string(folder.join("comm")).unwrap_or_default();
            found.push(format!("{} ({name}) with {what}", command.trim()));
        }
    }
    found
}

fn used_file(process: &Path, device: u64) -> Option<String> {
    let on_it = |link: &PathBuf| fs::metadata(link).is_ok_and(|file| file.dev() == device);
    let open = fs::read_dir(process.join("fd"))
        .into_iter()
        .flatten()
        .flatten();
    let mut links = ["cwd", "root", "exe"]
        .map(|name| process.join(name))
        .into_iter()
        .chain(open.map(|entry| entry.path()));
    let link = links.find(on_it)?;
    Some(fs::read_link(link).ok()?.display().to_string())
}

fn own_namespace(root: &Path) -> Option<PathBuf> {
    fs::read_link(root.join("proc/self/ns/mnt")).ok()
}

/// A process of another mount namespace that has it mounted: unmounting it here leaves it in use there.
fn mounted_elsewhere(process: &Path, number: &str, own: &Option<PathBuf>) -> Option<String> {
    let namespace = fs::read_link(process.join("ns/mnt")).ok()?;
    if Some(&namespace) == own.as_ref() {
        return None;
    }
    let text = fs::read_to_string(process.join("mountinfo")).ok()?;
    let mut mounts = text.lines().filter_map(sysfs::mount);
    let found = mounts.find(|mount| mount.number == number)?;
    Some(format!("a mount of its own at {}", found.at))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn an_open_file_names_its_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("held");
        let _held = File::create(&path).unwrap();
        let own = PathBuf::from(format!("/proc/{}", std::process::id()));
        let device = fs::metadata(&path).unwrap().dev();
        assert!(used_file(&own, device).is_some());
        assert_eq!(used_file(&own, u64::MAX), None);
    }
}
