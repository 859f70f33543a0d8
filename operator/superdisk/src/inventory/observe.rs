//! Looks at a node for everything that a plan may depend on. Reads only; starts no program.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{
    Disk, Fast, Identity, Inventory, Mount, Tried,
    arrays::{arrays, device_number},
    disks::{Blocks, Striped, Whole, content},
};
use crate::{
    model::{Candidate, Device, Node, Request, Seen},
    spec::Spec,
    superblock::{self, Role, Superblock, Uuid},
    sysfs::{self, read, under},
};

/// Why a node could not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// Not even for a preflight.
    #[error(transparent)]
    Survey(#[from] sysfs::ObserveError),
    /// A file that every Linux with md has could not be read.
    #[error("failed to read {path}")]
    Read {
        /// Which one.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// Looks at everything that `spec` is about, under `root`.
pub fn observe(
    spec: &Spec,
    root: &Path,
    blocks: &dyn Blocks,
    tried: &Tried,
) -> Result<Inventory, ObserveError> {
    let request = Request {
        durable: Some(spec.durable.clone()),
        local: spec.local.clone(),
        local_count: spec.local_count,
    };
    let survey = sysfs::observe(&request, root, blocks)?;
    let look = Look { root, blocks };
    let durable = Candidate {
        path: spec.durable.clone(),
        node: Seen::Absent,
    };
    let durable = look.disk(survey.durable.unwrap_or(durable));
    let local: Vec<Disk> = survey
        .local
        .into_iter()
        .map(|candidate| look.disk(candidate))
        .collect();
    let fast = look.fast(spec, &local);
    let twins = look.twins(&durable)?;
    let own = sysfs::mounts_of(root, "self")?;
    let (mounts, node_mounts) = (own, sysfs::mounts_of(root, "1").unwrap_or_default());
    let file = root.join("sys/block");
    Ok(Inventory {
        kernel: survey.kernel,
        boot: look.uuid("proc/sys/kernel/random/boot_id")?,
        random: look.uuid("proc/sys/kernel/random/uuid")?,
        durable,
        local,
        fast,
        arrays: arrays(root).map_err(|source| ObserveError::Read { path: file, source })?,
        twins,
        mounts: mounts.into_iter().filter_map(mount).collect(),
        node_mounts: node_mounts.into_iter().filter_map(mount).collect(),
        tried: tried.clone(),
    })
}

fn mount(mount: sysfs::Mount) -> Option<Mount> {
    Some(Mount {
        number: device_number(&mount.number).ok()?,
        at: PathBuf::from(mount.at),
    })
}

struct Look<'a> {
    root: &'a Path,
    blocks: &'a dyn Blocks,
}

impl Look<'_> {
    fn uuid(&self, file: &str) -> Result<Uuid, ObserveError> {
        let path = self.root.join(file);
        let text = read(&path).and_then(|text| {
            parse_uuid(&text).ok_or_else(|| io::Error::other(format!("{text} is no UUID")))
        });
        text.map_err(|source| ObserveError::Read { path, source })
    }

    fn disk(&self, candidate: Candidate) -> Disk {
        let Candidate { path, node } = candidate;
        let device = match &node {
            Seen::Present(Node::Block(device)) => device,
            Seen::Present(Node::NotBlock(_)) | Seen::Absent => {
                return Disk {
                    path,
                    node,
                    identity: None,
                    content: Seen::Absent,
                };
            }
            Seen::Unknown(why) => {
                let content = Seen::Unknown(why.clone());
                return Disk {
                    path,
                    node,
                    identity: None,
                    content,
                };
            }
        };
        let whole = Whole {
            blocks: self.blocks,
            path: &under(self.root, &path),
            bytes: device.bytes,
        };
        Disk {
            identity: Some(identity(self.root, &path, device)),
            content: content(&whole),
            path,
            node,
        }
    }

    /// Reads what the first `local_count` devices hold together.
    fn fast(&self, spec: &Spec, local: &[Disk]) -> Seen<Fast> {
        let members = match stripe(spec, local) {
            Some(members) => members,
            None => return Seen::Absent,
        };
        let Some((_, first)) = members.first() else {
            return Seen::Absent;
        };
        let (stripe, chunk) = (first.array, u64::from(first.chunk) * superblock::SECTOR);
        let paths: Vec<PathBuf> = members
            .iter()
            .map(|(identity, _)| under(self.root, &identity.path))
            .collect();
        let devices = members.iter().zip(&paths).map(|((identity, found), path)| {
            let whole = Whole {
                blocks: self.blocks,
                path,
                bytes: identity.bytes,
            };
            let start = found.data_offset.saturating_mul(superblock::SECTOR);
            let size = found.data_size.saturating_mul(superblock::SECTOR);
            (whole, start, size.min(identity.bytes.saturating_sub(start)))
        });
        let source = Striped {
            chunk,
            members: devices.collect(),
        };
        match content(&source) {
            Seen::Present(inside) => Seen::Present(Fast { stripe, inside }),
            Seen::Absent => Seen::Absent,
            Seen::Unknown(why) => Seen::Unknown(why),
        }
    }

    /// Other devices with the durable leg's array. One that cannot be read is not one that md would start.
    fn twins(&self, durable: &Disk) -> Result<Vec<String>, ObserveError> {
        let (Seen::Present(content), Some(own)) = (&durable.content, &durable.identity) else {
            return Ok(Vec::new());
        };
        let Seen::Present(wanted) = &content.superblock else {
            return Ok(Vec::new());
        };
        let folder = self.root.join("sys/block");
        let entries = fs::read_dir(&folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let entries = entries.map_err(|source| ObserveError::Read {
            path: folder.clone(),
            source,
        })?;
        let mut twins = Vec::new();
        for entry in entries {
            let name = entry.file_name().to_string_lossy().into_owned();
            // Arrays and loops show what is on other devices: the kubelet has a loop over the durable leg.
            let second_hand = ["md", "loop", "ram", "zram", "sr", "fd"];
            if second_hand.iter().any(|prefix| name.starts_with(prefix)) {
                continue;
            }
            let folder = folder.join(&name);
            let same = read(&folder.join("dev")).is_ok_and(|dev| dev == own.number.to_string());
            let path = folder.join("holders").join(&own.name);
            if same || path.exists() || folder.join("slaves").join(&own.name).exists() {
                continue;
            }
            let node = self.root.join("dev").join(&name);
            let bytes = self
                .blocks
                .read(&node, superblock::OFFSET, superblock::BYTES as u64);
            let found = bytes.ok().and_then(|bytes| superblock::parse(&bytes).ok()?);
            if found.is_some_and(|found| found.array == wanted.array) {
                twins.push(name);
            }
        }
        twins.sort_unstable();
        Ok(twins)
    }
}

/// The first `local_count` devices by slot, when they make up one stripe of this volume.
pub(super) fn stripe(spec: &Spec, local: &[Disk]) -> Option<Vec<(Identity, Superblock)>> {
    let mut members = Vec::new();
    let chosen = super::chosen(local, spec.local_count);
    if chosen.len() != spec.local_count {
        return None;
    }
    for disk in chosen {
        let (Seen::Present(content), Some(identity)) = (&disk.content, &disk.identity) else {
            return None;
        };
        let Seen::Present(found) = &content.superblock else {
            return None;
        };
        let Role::Slot(slot) = found.role() else {
            return None;
        };
        members.push((slot, identity.clone(), found.clone()));
    }
    members.sort_by_key(|(slot, _, _)| *slot);
    let (_, _, first) = members.first()?;
    let (array, chunk, name) = (first.array, first.chunk, spec.volume.stripe_name());
    let fit = members.iter().enumerate().all(|(index, (slot, _, found))| {
        usize::from(*slot) == index
            && found.level == 0
            && found.array == array
            && found.chunk == chunk
            && chunk != 0
            && found.short_name() == name
            && usize::try_from(found.raid_disks) == Ok(spec.local_count)
    });
    fit.then(|| {
        let members = members.into_iter();
        members
            .map(|(_, identity, found)| (identity, found))
            .collect()
    })
}

/// Who a device is, from sysfs.
fn identity(root: &Path, path: &Path, device: &Device) -> Identity {
    let Device {
        name,
        number,
        bytes,
        read_only: _,
        uses: _,
    } = device;
    let folder = root.join(format!("sys/dev/block/{number}"));
    let first = |files: [&str; 2]| {
        let mut texts = files
            .iter()
            .filter_map(|file| read(&folder.join(file)).ok());
        texts.find(|text| !text.is_empty())
    };
    Identity {
        path: path.to_owned(),
        name: name.clone(),
        number: *number,
        bytes: *bytes,
        serial: first(["serial", "device/serial"]),
        wwid: first(["wwid", "device/wwid"]),
        sequence: sysfs::number_in(&folder.join("diskseq")).ok(),
    }
}

/// `0d1e8f3c-5b0a-4c1e-9a57-1f2e3d4c5b6a`
fn parse_uuid(text: &str) -> Option<Uuid> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    if digits.len() != 32 || !digits.is_ascii() {
        return None;
    }
    let mut bytes = [0; 16];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(Uuid(bytes))
}
