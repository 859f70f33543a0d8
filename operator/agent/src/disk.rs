//! Ownership of the disk. A file of ours beside the data says which node's it is, and in which pod; it is written
//! before the first start, and gets the node's identity once it is a member.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::Path,
};

use serde::{Deserialize, Serialize};

use crate::wire::Disk;

const FILE: &str = ".readstates-node.json";
const FRESH: &str = ".readstates-node.json.new";

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Signature {
    host_id: Option<String>,
    /// Earlier versions did not sign it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pod: Option<String>,
}

/// What is on the disk.
///
/// # Errors
/// When it cannot be read: then it may be anything.
pub(super) fn read(data: &Path) -> io::Result<Disk> {
    // Blank even if signed: the signature stays when the rest is wiped.
    if is_blank(data)? {
        return Ok(Disk::Blank);
    }
    match fs::read(data.join(FILE)) {
        Ok(text) => {
            let Signature { host_id, pod } = serde_json::from_slice(&text)?;
            Ok(host_id.map_or(Disk::Begun, |host_id| Disk::Known { host_id, pod }))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Disk::Unmarked),
        Err(error) => Err(error),
    }
}

/// The kernel's number for md arrays.
const MD: u32 = 9;

/// Whether the folder is a filesystem on a super-disk, and not the folder under it, which looks like a blank disk.
///
/// # Errors
/// When it is not, or cannot be told.
pub(super) fn on_super_disk(data: &Path) -> io::Result<()> {
    let device = fs::metadata(data)?.dev();
    match rustix::fs::major(device) {
        MD => Ok(()),
        other => Err(io::Error::other(format!(
            "{} is on a device of kind {other}, and not on an md array ({MD})",
            data.display()
        ))),
    }
}

/// Whether the folder is empty, except for `lost+found` and hidden files.
fn is_blank(data: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(data)? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        if name != "lost+found" && !name.starts_with('.') {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Signs the disk in the name of this pod; durable when it returns.
///
/// # Errors
/// When it cannot be written.
pub(super) fn sign(data: &Path, host_id: Option<&str>, pod: &str) -> io::Result<()> {
    let signature = Signature {
        host_id: host_id.map(str::to_owned),
        pod: Some(pod.to_owned()),
    };
    let fresh = data.join(FRESH);
    let mut file = fs::File::create(&fresh)?;
    file.write_all(&serde_json::to_vec(&signature)?)?;
    file.sync_all()?;
    fs::rename(&fresh, data.join(FILE))?;
    fs::File::open(data)?.sync_all()
}

/// Whether the disk is signed by this node, in this pod.
pub(super) fn is_signed(data: &Path, host_id: &str, pod: &str) -> bool {
    let text = fs::read(data.join(FILE)).unwrap_or_default();
    serde_json::from_slice::<Signature>(&text)
        .is_ok_and(|s| s.host_id.as_deref() == Some(host_id) && s.pod.as_deref() == Some(pod))
}

/// Bytes free for a process without special rights.
///
/// # Errors
/// When the filesystem does not tell.
pub(super) fn free_bytes(data: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(data)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// And how many it has.
pub(super) fn size_bytes(data: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(data)?;
    Ok(stat.f_blocks.saturating_mul(stat.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_blank_then_begun_then_known() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path();
        fs::create_dir(data.join("lost+found")).unwrap();
        assert_eq!(read(data).unwrap(), Disk::Blank);

        sign(data, None, "a-0").unwrap();
        // Nothing has been written by the engine yet: it may as well begin again.
        assert_eq!(read(data).unwrap(), Disk::Blank);
        fs::create_dir(data.join("data")).unwrap();
        assert_eq!(read(data).unwrap(), Disk::Begun);

        sign(data, Some("id-1"), "a-0").unwrap();
        let known = |pod: Option<&str>| Disk::Known {
            host_id: "id-1".to_owned(),
            pod: pod.map(str::to_owned),
        };
        assert_eq!(read(data).unwrap(), known(Some("a-0")));
        assert!(is_signed(data, "id-1", "a-0") && !is_signed(data, "id-2", "a-0"));
        assert!(!is_signed(data, "id-1", "a-1"));
        // As an agent of before has signed it.
        fs::write(data.join(FILE), r#"{"hostId":"id-1"}"#).unwrap();
        assert_eq!(read(data).unwrap(), known(None));
        assert!(!is_signed(data, "id-1", "a-0"));
    }

    #[test]
    fn data_without_a_signature_is_nobodys_and_a_signature_without_data_is_a_wiped_disk() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path();
        fs::create_dir(data.join("commitlog")).unwrap();
        assert_eq!(read(data).unwrap(), Disk::Unmarked);

        sign(data, Some("id-1"), "a-0").unwrap();
        fs::remove_dir(data.join("commitlog")).unwrap();
        assert_eq!(read(data).unwrap(), Disk::Blank);
    }

    #[test]
    fn a_folder_is_no_super_disk() {
        let dir = tempfile::tempdir().unwrap();
        let error = on_super_disk(dir.path()).unwrap_err().to_string();
        assert!(error.ends_with("and not on an md array (9)"), "{error}");
        assert!(on_super_disk(Path::new("/nowhere/at/all")).is_err());
    }

    #[test]
    fn a_disk_that_cannot_be_read_is_not_blank() {
        assert!(read(Path::new("/nowhere/at/all")).is_err());
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("data")).unwrap();
        fs::write(dir.path().join(FILE), "{ torn").unwrap();
        assert!(read(dir.path()).is_err());
    }
}
