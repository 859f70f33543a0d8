//! Looks at a node for everything that a plan may depend on. Reads only; starts no program.

use std::{
    collections::BTreeMap,
    fs, io,
    panic::resume_unwind,
    path::{Path, PathBuf},
    thread,
};

use super::{
    Disk, Fast, Identity, Inventory, LegFound, Mount, Tried, Twin,
    disks::{Blocks, Gaps, Striped, Whole, content, header_on},
};
use crate::{
    md::read::{Unread, arrays, device_number},
    model::{Candidate, Device, Node, Request, Seen},
    spec::{STRIPE_PREFIX, Spec, fnv1a},
    superblock::{self, Role, Superblock, Uuid},
    sysfs::{self, read, under},
};

/// Why a node could not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// Not even for a preflight.
    #[error(transparent)]
    Survey(#[from] sysfs::ObserveError),
    /// An array could not be looked at.
    #[error(transparent)]
    Array(#[from] Unread),
    /// A file that every Linux with md has could not be read.
    #[error("failed to read {path}")]
    Read {
        /// Which one.
        path: PathBuf,
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
    let durable = look.disk(survey.durable.unwrap_or(durable), Gaps::Unknown);
    let local = look.side_by_side(survey.local);
    let legs = look.legs(&local);
    let own = own_leg(spec, &legs, &durable);
    let fast = own.map_or(Seen::Absent, |leg| match &leg.inside {
        Seen::Present(inside) => Seen::Present(Fast {
            stripe: leg.stripe,
            inside: inside.clone(),
        }),
        Seen::Absent => Seen::Absent,
        Seen::Unknown(why) => Seen::Unknown(why.clone()),
    });
    let local = in_order(spec, local, &legs, own);
    let twins = look.twins(&durable, &local)?;
    let (mounts, node_mounts) = (sysfs::own_mounts(root)?, sysfs::node_mounts(root)?);
    Ok(Inventory {
        kernel: survey.kernel,
        boot: look.uuid("proc/sys/kernel/random/boot_id")?,
        machine: look.machine(),
        random: look.uuid("proc/sys/kernel/random/uuid")?,
        durable,
        local,
        fast,
        legs,
        arrays: arrays(root)?,
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

    /// What tells this machine from others. Some firmware has one UUID for all machines: of zeros, or of ones.
    fn machine(&self) -> Option<u64> {
        let text = read(&self.root.join("sys/class/dmi/id/product_uuid")).ok()?;
        let uuid = parse_uuid(&text)?;
        let is_own = [0, 0xff].iter().all(|byte| uuid.0 != [*byte; 16]);
        is_own.then(|| fnv1a(&uuid.0))
    }

    fn disk(&self, candidate: Candidate, gaps: Gaps) -> Disk {
        let Candidate { path, node } = candidate;
        let device = match &node {
            Seen::Present(Node::Block(device)) => device,
            Seen::Present(Node::NotBlock(_)) | Seen::Absent => {
                return Disk {
                    path,
                    node,
                    identity: None,
                    model: None,
                    wait_millis: None,
                    content: Seen::Absent,
                };
            }
            Seen::Unknown(why) => {
                let content = Seen::Unknown(why.clone());
                return Disk {
                    path,
                    node,
                    identity: None,
                    model: None,
                    wait_millis: None,
                    content,
                };
            }
        };
        let whole = Whole {
            blocks: self.blocks,
            path: &under(self.root, &path),
            bytes: device.bytes,
        };
        let folder = self.root.join(format!("sys/dev/block/{}", device.number));
        Disk {
            identity: Some(identity(self.root, &path, device)),
            model: read(&folder.join("device/model")).ok(),
            wait_millis: sysfs::number_in(&folder.join("queue/io_timeout")).ok(),
            content: content(&whole, gaps),
            path,
            node,
        }
    }

    /// Looks at local devices, all at once: several that do not answer take no longer than one.
    fn side_by_side(&self, candidates: Vec<Candidate>) -> Vec<Disk> {
        thread::scope(|scope| {
            let look = |candidate| scope.spawn(move || self.disk(candidate, Gaps::Ignored));
            let looks: Vec<_> = candidates.into_iter().map(look).collect();
            let disk = |look: thread::ScopedJoinHandle<'_, Disk>| {
                look.join().unwrap_or_else(|panic| resume_unwind(panic))
            };
            looks.into_iter().map(disk).collect()
        })
    }

    /// Reads what is inside of each leg that the local devices carry a part of.
    fn legs(&self, local: &[Disk]) -> Vec<LegFound> {
        let mut parts: BTreeMap<Uuid, Vec<Part<'_>>> = BTreeMap::new();
        for part in local.iter().filter_map(part) {
            parts.entry(part.found.array).or_default().push(part);
        }
        let legs = parts.into_iter();
        legs.filter_map(|(stripe, parts)| self.leg(stripe, &parts))
            .collect()
    }

    fn leg(&self, stripe: Uuid, parts: &[Part<'_>]) -> Option<LegFound> {
        let first = parts.first()?.found;
        let wanted = usize::try_from(first.raid_disks).ok()?;
        let chunk = u64::from(first.chunk) * superblock::SECTOR;
        if wanted == 0 || wanted > MOST_DEVICES || chunk == 0 {
            return None;
        }
        let alike = |part: &&Part<'_>| {
            part.found.chunk == first.chunk && part.found.raid_disks == first.raid_disks
        };
        let at = |slot: usize| {
            let mut fit = parts.iter().filter(alike);
            fit.find(|part| part.slot == slot)
        };
        let paths: Vec<Option<PathBuf>> = (0..wanted)
            .map(|slot| at(slot).map(|part| under(self.root, &part.identity.path)))
            .collect();
        let members = (0..wanted).zip(&paths).map(|(slot, path)| {
            let (part, path) = (at(slot)?, path.as_ref()?);
            let whole = Whole {
                blocks: self.blocks,
                path,
                bytes: part.identity.bytes,
            };
            let start = part.found.data_offset.saturating_mul(superblock::SECTOR);
            let size = part.found.data_size.saturating_mul(superblock::SECTOR);
            let room = part.identity.bytes.saturating_sub(start);
            Some((whole, start, size.min(room)))
        });
        let source = Striped {
            chunk,
            members: members.collect(),
        };
        Some(LegFound {
            stripe,
            name: first.short_name().to_owned(),
            wanted,
            devices: (0..wanted)
                .filter_map(|slot| at(slot).map(|part| part.identity.number))
                .collect(),
            inside: content(&source, Gaps::Ignored),
        })
    }

    /// Other devices with the durable leg's array. One that cannot be read is not one that md would start; of a local
    /// device that is known already.
    fn twins(&self, durable: &Disk, local: &[Disk]) -> Result<Vec<Twin>, ObserveError> {
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
            let number = read(&folder.join("dev"))
                .and_then(|dev| device_number(&dev))
                .ok();
            let same = number == Some(own.number);
            let unread = local.iter().any(|disk| {
                let is = disk.identity.as_ref().map(|one| one.number) == number;
                is && matches!(disk.content, Seen::Unknown(_))
            });
            let path = folder.join("holders").join(&own.name);
            if same || unread || path.exists() || folder.join("slaves").join(&own.name).exists() {
                continue;
            }
            let node = self.root.join("dev").join(&name);
            let bytes = self
                .blocks
                .read(&node, superblock::OFFSET, superblock::BYTES as u64);
            let found = bytes.ok().and_then(|bytes| superblock::parse(&bytes).ok()?);
            if found.is_some_and(|found| found.array == wanted.array) {
                twins.push(Twin {
                    name,
                    number,
                    lineage: header_on(self.blocks, &node),
                });
            }
        }
        twins.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(twins)
    }
}

/// More than md takes.
const MOST_DEVICES: usize = 1920;

/// A device's part of a fast leg.
struct Part<'a> {
    slot: usize,
    identity: &'a Identity,
    found: &'a Superblock,
}

fn part(disk: &Disk) -> Option<Part<'_>> {
    let (Seen::Present(content), Some(identity)) = (&disk.content, &disk.identity) else {
        return None;
    };
    let Seen::Present(found) = &content.superblock else {
        return None;
    };
    let Role::Slot(slot) = found.role() else {
        return None;
    };
    let leg = found.level == 0 && found.short_name().starts_with(STRIPE_PREFIX);
    leg.then(|| Part {
        slot: slot.into(),
        identity,
        found,
    })
}

/// The whole leg of this volume: the one that its durable leg has admitted, where there are more.
fn own_leg<'a>(spec: &Spec, legs: &'a [LegFound], durable: &Disk) -> Option<&'a LegFound> {
    let admitted = match &durable.content {
        Seen::Present(content) => match &content.lineage {
            Seen::Present(header) => Some(header.fast),
            Seen::Absent | Seen::Unknown(_) => None,
        },
        Seen::Absent | Seen::Unknown(_) => None,
    };
    let name = spec.volume.stripe_name();
    let ours =
        |leg: &&LegFound| leg.name == name && leg.wanted == spec.local_count && leg.is_whole();
    let mut legs: Vec<&LegFound> = legs.iter().filter(ours).collect();
    legs.sort_by_key(|leg| Some(leg.stripe) != admitted);
    legs.first().copied()
}

/// Puts the devices that the fast leg has, or shall have, before all others: its own, then blank ones, then those of
/// another volume's fast leg, which may still be of use to it, and then those that something else has.
fn in_order(spec: &Spec, local: Vec<Disk>, legs: &[LegFound], own: Option<&LegFound>) -> Vec<Disk> {
    let name = spec.volume.stripe_name();
    let rank = |disk: &Disk| {
        let Some(identity) = &disk.identity else {
            return 7;
        };
        if own.is_some_and(|leg| leg.devices.contains(&identity.number)) {
            return 0;
        }
        let found = part(disk).map(|part| part.found);
        let leg = legs
            .iter()
            .find(|leg| leg.devices.contains(&identity.number));
        let free =
            matches!(&disk.node, Seen::Present(Node::Block(device)) if device.uses.is_empty());
        match (found, free) {
            (Some(found), _) if found.short_name() == name => 1,
            (None, true) if disk.is_blank() => 2,
            (Some(_), true) if leg.is_some_and(LegFound::is_whole) => 3,
            (Some(_), true) => 4,
            (None, true) => 5,
            (Some(_) | None, false) => 6,
        }
    };
    let mut local: Vec<Disk> = local;
    // Stable: among equals the names decide.
    local.sort_by_key(rank);
    let count = spec.local_count.min(local.len());
    local[..count].sort_by(|one, other| one.path.cmp(&other.path));
    local
}

/// The identity of a device, from sysfs.
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
