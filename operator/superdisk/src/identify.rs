//! Finds out which volume a pod has, from the operator's entry and from the device that the kubelet gave the container.
//! In: two paths. Out: one file that the next containers are started with (`--disk`).
//!
//! A pod cannot learn which claim it has: nothing in the pod says so. The operator sees the claim and writes an entry
//! with its UID into a ConfigMap that all pods of the database mount. The entry stays there, so that a pod that comes
//! back needs no operator. It may be older than the claim (of a volume that was deleted and recreated meanwhile), so it
//! names the pod that the claim was seen with. Another pod believes it only where the disk's own lineage header says
//! the same:
//!
//! | the entry is of | the disk | |
//! |---|---|---|
//! | this pod | any | is believed |
//! | an earlier pod | has a header of the entry's volume | is believed |
//! | an earlier pod | is blank, another volume's, or cannot be read | this pod's entry is waited for |
//!
//! The device is looked up here and not by the containers that use it: theirs is the node's whole `/dev`, and a
//! container runtime puts no device of a claim into that.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    execute::pause,
    inventory::{self, Devices},
    lineage::Header,
    log::say,
    model::Seen,
    resolve::Keep,
    spec::{CopyOf, VolumeUid},
    sysfs::kernel_node,
};

/// Pause between two looks for the entry.
const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_secs(1);
/// Looks after which it is said again.
const SAY_AGAIN: u32 = 60;

/// What the operator writes. It may know more than we do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    /// UID of the claim.
    volume: VolumeUid,
    /// UID of the pod that the claim was seen with. Operators of earlier releases do not say it.
    #[serde(default)]
    pod: Option<String>,
    /// Whether a database was a member on it before: then a blank disk is not the right one.
    #[serde(default)]
    used_before: bool,
    /// UID of the claim that this one is a copy of, where it was made from a snapshot or a clone; with the snapshot's
    /// generation where that is known.
    #[serde(default)]
    copy_of: Option<CopyOf>,
    /// The snapshot's generation, where the claim's disk was put back to it in place.
    #[serde(default)]
    restored: Option<u64>,
    /// What a person has decided about it.
    #[serde(default)]
    keep: Option<Decision>,
}

/// Which leg's data counts, where both took writes. It is for one pod, so that it is not taken for an answer to a
/// later question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Decision {
    /// UID of the pod whose super-disk was refused.
    pod: String,
    /// Whose data is kept.
    leg: Keep,
}

/// What was decided for this pod, if it was. An entry that cannot be read decides nothing.
#[must_use]
pub fn decided(entry: &Path, pod: &str) -> Option<Keep> {
    let entry: Entry = parse(entry, &fs::read(entry).ok()?).ok()?;
    let Decision { pod: meant, leg } = entry.keep?;
    (meant == pod).then_some(leg)
}

/// The file in between.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Disk {
    /// Device of the durable leg, in the node's `/dev`.
    pub durable: PathBuf,
    /// UID of the claim.
    pub volume: VolumeUid,
    /// Whether it held data before.
    pub used_before: bool,
    /// What it is a copy of, if it is one.
    #[serde(default)]
    pub copy_of: Option<CopyOf>,
    /// The generation to which it was put back in place, if it was.
    #[serde(default)]
    pub restored: Option<u64>,
}

/// The volume cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum IdentifyError {
    /// A file could not be read or written.
    #[error("failed to use {path}")]
    File { path: PathBuf, source: io::Error },
    /// A file says something else than it should.
    #[error("failed to understand {path}")]
    Content {
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// The container was given no block device there.
    #[error("{0} is no block device that the kernel knows")]
    NoDevice(PathBuf),
}

/// Flags of `superdisk identify`.
#[derive(Debug, clap::Args)]
pub struct IdentifyArgs {
    /// File with the operator's entry about this pod's volume. Waits until it exists.
    #[arg(long, value_name = "FILE")]
    entry: PathBuf,

    /// Device of the volume in this container.
    #[arg(long, value_name = "DEVICE")]
    device: PathBuf,

    /// UID of this pod. Without it, an entry of any pod is accepted.
    #[arg(long, value_name = "UID", env = "POD_UID")]
    pod: Option<String>,

    /// The file to write, for `--disk`.
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
}

impl IdentifyArgs {
    /// Waits for the entry, and writes the file.
    ///
    /// # Errors
    /// What cannot be read, understood or written.
    pub fn run(&self) -> Result<(), IdentifyError> {
        let Self {
            entry,
            device,
            pod,
            to,
        } = self;
        let durable = kernel_node(device)
            .filter(|node| node.starts_with("/dev"))
            .ok_or_else(|| IdentifyError::NoDevice(device.clone()))?;
        let Entry {
            volume,
            pod: _,
            used_before,
            copy_of,
            restored,
            keep: _,
        } = wait_for(entry, device, pod.as_deref())?;
        let disk = Disk {
            durable,
            volume,
            used_before,
            copy_of,
            restored,
        };
        disk.write(to)?;
        let Disk {
            durable,
            volume,
            used_before,
            copy_of: _,
            restored: _,
        } = &disk;
        let before = if *used_before { "used before" } else { "new" };
        say(&format!(
            "volume {volume} ({before}) is {}",
            durable.display()
        ));
        Ok(())
    }
}

/// Whether an entry is of the claim that this pod has.
fn is_believed(entry: &Entry, pod: Option<&str>, found: &Seen<Header>) -> bool {
    let of_this_pod = pod.is_none() || entry.pod.as_deref() == pod;
    of_this_pod || matches!(found, Seen::Present(header) if header.volume == entry.volume)
}

/// What is waited for, when it is.
fn missing(entry: &Path, found: &Seen<Header>) -> String {
    let entry = entry.display();
    match found {
        Seen::Present(header) => format!(
            "waiting for the operator to write {entry} for this pod: it is of an earlier one, and the disk is the \
             volume {}'s",
            header.volume
        ),
        Seen::Absent => format!(
            "waiting for the operator to write {entry} for this pod: it is of an earlier one, and the disk has no \
             header of a super-disk"
        ),
        Seen::Unknown(why) => format!(
            "waiting for the operator to write {entry} for this pod: it is of an earlier one, and the disk cannot be \
             read: {why}"
        ),
    }
}

/// Until the operator has seen the claim with this pod; the kubelet shows what has changed a minute later at most.
fn wait_for(path: &Path, device: &Path, pod: Option<&str>) -> Result<Entry, IdentifyError> {
    let mut looks = 0_u32;
    loop {
        let waiting = match fs::read(path) {
            Ok(text) => {
                let entry: Entry = parse(path, &text)?;
                let found = inventory::header_on(&Devices, device);
                if is_believed(&entry, pod, &found) {
                    return Ok(entry);
                }
                missing(path, &found)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                format!("waiting for the operator to write {}", path.display())
            }
            Err(source) => return Err(file(path)(source)),
        };
        if looks.is_multiple_of(SAY_AGAIN) {
            say(&waiting);
        }
        looks += 1;
        pause(LOOK_AGAIN);
    }
}

impl Disk {
    /// Reads what [`IdentifyArgs::run`] wrote.
    ///
    /// # Errors
    /// When it is not there or not to be understood.
    pub fn read(path: &Path) -> Result<Self, IdentifyError> {
        parse(path, &fs::read(path).map_err(file(path))?)
    }

    /// Replaces the file as a whole.
    fn write(&self, path: &Path) -> Result<(), IdentifyError> {
        let text = serde_json::to_vec(self).map_err(content(path))?;
        let beside = path.with_extension("new");
        fs::write(&beside, text).map_err(file(&beside))?;
        fs::rename(&beside, path).map_err(file(path))
    }
}

fn parse<T: serde::de::DeserializeOwned>(path: &Path, text: &[u8]) -> Result<T, IdentifyError> {
    serde_json::from_slice(text).map_err(content(path))
}

fn file(path: &Path) -> impl FnOnce(io::Error) -> IdentifyError {
    let path = path.to_owned();
    |source| IdentifyError::File { path, source }
}

fn content(path: &Path) -> impl FnOnce(serde_json::Error) -> IdentifyError {
    let path = path.to_owned();
    |source| IdentifyError::Content { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{assemble::chain, superblock::Uuid};

    fn disk() -> Disk {
        Disk {
            durable: "/dev/sdb".into(),
            volume: "0d1e8f3c-5b0a".parse().unwrap(),
            used_before: true,
            copy_of: Some("v-0@7".parse().unwrap()),
            restored: None,
        }
    }

    #[test]
    fn what_was_identified_is_what_the_next_container_reads() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.json");
        disk().write(&path).unwrap();
        assert_eq!(Disk::read(&path).unwrap(), disk());
    }

    #[test]
    fn an_entry_may_say_more_and_less() {
        let entry = |text: &str| parse::<Entry>(Path::new("chat-0"), text.as_bytes());
        let of = |used_before| Entry {
            volume: "v-1".parse().unwrap(),
            pod: None,
            used_before,
            copy_of: None,
            restored: None,
            keep: None,
        };
        assert_eq!(entry(r#"{"volume":"v-1"}"#).unwrap(), of(false));
        let more = r#"{"volume":"v-1","usedBefore":true,"snapshot":"s"}"#;
        assert_eq!(entry(more).unwrap(), of(true));
        let copy = r#"{"volume":"v-1","copyOf":"v-0@7","restored":3}"#;
        let wanted = Entry {
            copy_of: Some("v-0@7".parse().unwrap()),
            restored: Some(3),
            ..of(false)
        };
        assert_eq!(entry(copy).unwrap(), wanted);
        let odd = entry(r#"{"volume":"../etc"}"#).unwrap_err();
        let text = chain(&odd);
        assert!(
            text.starts_with("failed to understand chat-0: a volume UID has 1 to 64"),
            "{text}"
        );
    }

    #[test]
    fn an_entry_of_an_earlier_pod_is_believed_only_where_the_disk_says_the_same() {
        let header = |volume: &str| {
            let (session, boot) = (Uuid([1; 16]), Uuid([2; 16]));
            Seen::Present(Header::first(volume.parse().unwrap(), session, boot))
        };
        let entry = |pod: Option<&str>| Entry {
            volume: "v-1".parse().unwrap(),
            pod: pod.map(str::to_owned),
            used_before: false,
            copy_of: None,
            restored: None,
            keep: None,
        };
        let unread = Seen::Unknown("EIO".to_owned());
        let disks = [header("v-1"), header("v-0"), Seen::Absent, unread];
        let believed = |of: Option<&str>, pod: Option<&str>| {
            let entry = entry(of);
            let disks = disks.iter();
            disks
                .map(|found| is_believed(&entry, pod, found))
                .collect::<Vec<_>>()
        };
        assert_eq!(believed(Some("p-1"), Some("p-1")), [true; 4]);
        let earlier = [true, false, false, false];
        assert_eq!(believed(Some("p-1"), Some("p-2")), earlier);
        assert_eq!(believed(None, Some("p-2")), earlier);
        // The program was not told which pod it is in.
        assert_eq!(believed(Some("p-1"), None), [true; 4]);
        for (found, words) in disks.iter().zip(["v-1's", "v-0's", "no header", "EIO"]) {
            let said = missing(Path::new("chat-0"), found);
            assert!(said.contains(words), "{said}");
        }
    }

    #[test]
    fn a_decision_is_for_the_pod_that_it_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chat-0");
        let text = r#"{"volume":"v-1","usedBefore":true,"keep":{"pod":"p-1","leg":"durable"}}"#;
        assert_eq!(decided(&path, "p-1"), None);
        fs::write(&path, text).unwrap();
        assert_eq!(decided(&path, "p-1"), Some(Keep::Durable));
        assert_eq!(decided(&path, "p-2"), None);
        fs::write(&path, text.replace("durable", "both")).unwrap();
        assert_eq!(decided(&path, "p-1"), None);
    }

    #[test]
    fn what_is_no_block_device_is_nobodys_volume() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("plain");
        fs::write(&plain, "").unwrap();
        let args = IdentifyArgs {
            entry: plain.clone(),
            device: plain.clone(),
            pod: None,
            to: plain.clone(),
        };
        let error = args.run().unwrap_err().to_string();
        assert_eq!(
            error,
            format!(
                "{} is no block device that the kernel knows",
                plain.display()
            )
        );
    }
}
