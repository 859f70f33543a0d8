//! Keeps a node's udev from assembling super-disks: a rule that lets mdadm's own rules pass our components by. In: the
//! folder of rules. Out: one file in it, written again when it is gone or changed.
//!
//! mdadm's rules give each component that appears to `mdadm --incremental`. That starts both legs of a mirror at once
//! after a crash, copies from the wrong one, or starts one leg alone after half a minute (`mdadm-last-resort@`), before
//! `assemble` has asked anything. The rule here comes before those and takes the type of a component from our devices, by
//! the name of their array. Arrays of others are theirs.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use crate::{
    arguments::time,
    log::say,
    stop::{Stop, end_on_sigterm},
};

/// Before 64-md-raid-assembly.rules and 65-md-incremental.rules, after 60-persistent-storage.rules, which asks blkid.
pub const RULES: &str = "63-readstates-superdisk.rules";

/// `sd0-…` and `sd1-…` are made with `--homehost=any`.
const TEXT: &str = "# Written by superdisk node-setup. Components of super-disks are for their pods to assemble, not for mdadm's rules.
SUBSYSTEM==\"block\", ENV{ID_FS_TYPE}==\"linux_raid_member\", ENV{ID_FS_LABEL}==\"any:sd[01]-*\", ENV{ID_FS_TYPE}=\"readstates_superdisk\"
";

/// Where distributions have the rules that assemble arrays.
const OF_MDADM: [&str; 2] = ["64-md-raid-assembly.rules", "65-md-incremental.rules"];
const FOLDERS: [&str; 4] = [
    "etc/udev/rules.d",
    "run/udev/rules.d",
    "usr/lib/udev/rules.d",
    "lib/udev/rules.d",
];

/// Keep this node's udev from assembling super-disks.
#[derive(Debug, clap::Args)]
pub struct NodeSetupArgs {
    /// The node's folder of udev rules. udev itself sees a new file within seconds.
    #[arg(long, value_name = "PATH", default_value = "/etc/udev/rules.d")]
    rules: PathBuf,

    /// Time between two checks.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = time)]
    every: Duration,

    /// Check once, and exit.
    #[arg(long, conflicts_with = "remove")]
    once: bool,

    /// Remove the rule, and exit.
    #[arg(long)]
    remove: bool,
}

/// The rule could not be written or removed.
#[derive(Debug, thiserror::Error)]
#[error("failed to write {path}")]
pub struct NodeSetupError {
    path: PathBuf,
    source: io::Error,
}

impl NodeSetupArgs {
    /// Writes the rule, again and again.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn run(&self) -> Result<ExitCode, Box<dyn std::error::Error>> {
        let Self {
            rules,
            every,
            once,
            remove,
        } = self;
        end_on_sigterm()?;
        let path = rules.join(RULES);
        let failed = |source| NodeSetupError {
            path: path.clone(),
            source,
        };
        loop {
            let changed = if *remove {
                taken_away(&path)
            } else {
                written(&path)
            };
            if changed.map_err(failed)? {
                let what = if *remove { "removed" } else { "wrote" };
                say(&format!("{what} {}", path.display()));
            }
            if *once || *remove {
                return Ok(ExitCode::SUCCESS);
            }
            let _ = Stop::default().pause(*every);
        }
    }
}

/// Whether it had to be written.
fn written(path: &Path) -> io::Result<bool> {
    if fs::read_to_string(path).is_ok_and(|text| text == TEXT) {
        return Ok(false);
    }
    // udev passes over names that do not end in .rules.
    let beside = path.with_extension("new");
    fs::write(&beside, TEXT)?;
    fs::rename(&beside, path)?;
    Ok(true)
}

/// Whether it was there.
fn taken_away(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The rules by which the node under `root` would assemble super-disks; `None` when it would not.
#[must_use]
pub fn assembling_rules(root: &Path) -> Option<PathBuf> {
    let find = |names: &[&str]| {
        let mut paths = FOLDERS
            .iter()
            .flat_map(|folder| names.iter().map(move |name| Path::new(folder).join(name)));
        // A link to /dev/null turns rules off.
        paths.find(|path| fs::read_to_string(root.join(path)).is_ok_and(|text| !text.is_empty()))
    };
    match find(&[RULES]) {
        Some(_) => None,
        None => find(&OF_MDADM).map(|path| Path::new("/").join(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_is_written_once_mended_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(RULES);
        assert!(written(&path).unwrap());
        assert!(!written(&path).unwrap());
        fs::write(&path, "#").unwrap();
        assert!(written(&path).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), TEXT);
        let entries = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(entries, 1, "nothing is left beside it");
        assert!(taken_away(&path).unwrap());
        assert!(!taken_away(&path).unwrap());
    }

    #[test]
    fn a_node_whose_udev_would_assemble_super_disks_is_told_from_one_that_would_not() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(assembling_rules(root.path()), None);
        for folder in FOLDERS {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        let of_mdadm = root.path().join("usr/lib/udev/rules.d").join(OF_MDADM[0]);
        fs::write(of_mdadm, "RUN").unwrap();
        assert_eq!(
            assembling_rules(root.path()),
            Some("/usr/lib/udev/rules.d/64-md-raid-assembly.rules".into())
        );
        written(&root.path().join("etc/udev/rules.d").join(RULES)).unwrap();
        assert_eq!(assembling_rules(root.path()), None);
    }
}
