//! Fills [`Facts`] from sysfs, `/dev` and mountinfo under a root folder. Reads only, opens no disk, starts no program.
//!
//! The mirror is found through what belongs to it (the mount, the durable device, the local devices), never by its
//! number: the host may have given it a different one.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::facts::{
    Facts, Flags, Knobs, Leg, Member, Mirror, Mount, Stripe, Sync, SyncAction, Traffic,
};
use crate::{
    model::{Candidate, Device, Node, Request, Seen, Survey, Use},
    sysfs::{self, Nodes, ObserveError},
};

/// Unit of `size`, `sync_completed` and `bad_blocks` in sysfs.
pub const SECTOR_BYTES: u64 = 512;

/// Why the running arrays could not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// The devices could not be found.
    #[error("failed to find the devices")]
    Devices(#[from] ObserveError),
    /// A file of sysfs or procfs could not be understood.
    #[error("failed to read {path}")]
    Read {
        /// Which one.
        path: PathBuf,
        source: io::Error,
    },
    /// A disk was asked whose component it is, and does not answer.
    #[error("failed to read whose component {device} is")]
    Silent { device: String, source: io::Error },
}

/// Looks at everything that runs for `request` and is mounted at `target`. `known` is the mirror's name when it was
/// last seen: it is believed only for an array that stands on our local devices, after the durable device has gone.
pub fn look(
    request: &Request,
    target: &Path,
    known: Option<&str>,
    root: &Path,
    nodes: &dyn Nodes,
) -> Result<Facts, LookError> {
    let Survey {
        kernel: _,
        durable,
        local,
        assembling_rules: _,
    } = sysfs::observe(request, root, nodes)?;
    let durable = durable.as_ref().and_then(block);
    let local: Vec<&Device> = local.iter().filter_map(block).collect();
    let mount = mount_at(root, target)?;
    let arrays = Arrays { root };
    let mirror = arrays.find_mirror(mount.as_ref(), durable, &local, known);
    let mirror = match mirror {
        Some(name) => Some(arrays.mirror(&name)?),
        None => None,
    };
    let in_mirror = mirror.as_ref().and_then(|mirror| mirror.fast.as_ref());
    let stripe = in_mirror
        .map(|leg| leg.device.clone())
        .filter(|name| arrays.is_level(name, "raid0"))
        .or_else(|| {
            // One that another mirror stands on is none of ours.
            let stripe = arrays.find_holder(&local, "raid0")?;
            arrays.holders(&stripe).is_empty().then_some(stripe)
        });
    let stripe = match stripe {
        Some(name) => Some(arrays.stripe(&name)?),
        None => None,
    };
    let ours = stripe.as_ref().map(|stripe| stripe.name.as_str());
    let free = |device: &&&Device| {
        let mut uses = device.uses.iter();
        uses.all(|used| matches!(used, Use::Holder(name) if Some(name.as_str()) == ours))
    };
    Ok(Facts {
        local_found: local.iter().filter(free).count(),
        mirror,
        stripe,
        mount: mount.map(|(mount, _)| mount),
    })
}

fn block(candidate: &Candidate) -> Option<&Device> {
    match &candidate.node {
        Seen::Present(Node::Block(device)) => Some(device),
        Seen::Present(Node::NotBlock(_)) | Seen::Absent | Seen::Unknown(_) => None,
    }
}

/// The mount at `target`, the last one where several lie on each other, and the device's sysfs name.
fn mount_at(root: &Path, target: &Path) -> Result<Option<(Mount, Option<String>)>, LookError> {
    let path = root.join("proc/self/mountinfo");
    let text = fs::read_to_string(&path).map_err(|source| LookError::Read { path, source })?;
    let target = target.to_string_lossy();
    let found = text.lines().rev().find_map(|line| {
        // `36 35 9:1 / /data rw,noatime shared:1 - xfs /dev/md1 rw`; see proc_pid_mountinfo(5).
        let (before, after) = line.split_once(" - ")?;
        let before: Vec<&str> = before.split(' ').collect();
        let after: Vec<&str> = after.split(' ').collect();
        let [_, _, number, _, at, options, ..] = before[..] else {
            return None;
        };
        let [filesystem, source, over, ..] = after[..] else {
            return None;
        };
        (at.replace("\\040", " ") == target).then(|| {
            let read_only = [options, over]
                .iter()
                .any(|list| list.split(',').any(|one| one == "ro"));
            let name = sysfs_name(&root.join("sys/dev/block").join(number));
            let mount = Mount {
                device: name.clone().unwrap_or_else(|| source.to_owned()),
                filesystem: filesystem.to_owned(),
                read_only,
            };
            (mount, name)
        })
    });
    Ok(found)
}

/// Whether the device behind `MD/md/dev-NAME` is still there: the link of one that has gone leads to the one that came
/// in its place, and nothing is built upon that.
fn is_present(member: &Path) -> bool {
    let array = member.ancestors().nth(2).and_then(Path::file_name);
    let holders = member.join("block/holders");
    array.is_some_and(|array| holders.join(array).exists())
}

/// The last part of what a link in sysfs leads to; `None` when that is gone.
fn sysfs_name(link: &Path) -> Option<String> {
    let folder = fs::canonicalize(link).ok()?;
    Some(folder.file_name()?.to_string_lossy().into_owned())
}

struct Arrays<'a> {
    root: &'a Path,
}

impl Arrays<'_> {
    fn folder(&self, device: &str) -> PathBuf {
        self.root.join("sys/class/block").join(device)
    }

    fn is_level(&self, name: &str, level: &str) -> bool {
        fs::read_to_string(self.folder(name).join("md/level"))
            .is_ok_and(|text| text.trim() == level)
    }

    fn find_mirror(
        &self,
        mount: Option<&(Mount, Option<String>)>,
        durable: Option<&Device>,
        local: &[&Device],
        known: Option<&str>,
    ) -> Option<String> {
        let mounted = mount.and_then(|(_, name)| name.clone());
        mounted
            .filter(|name| self.is_level(name, "raid1"))
            .or_else(|| self.find_holder(durable.as_slice(), "raid1"))
            .or_else(|| {
                let stripe = self.find_holder(local, "raid0")?;
                let mut holders = self.holders(&stripe).into_iter();
                holders.find(|name| Some(name.as_str()) == known && self.is_level(name, "raid1"))
            })
    }

    fn find_holder(&self, devices: &[&Device], level: &str) -> Option<String> {
        let mut holders = devices.iter().flat_map(|device| self.holders(&device.name));
        holders.find(|name| self.is_level(name, level))
    }

    fn holders(&self, device: &str) -> Vec<String> {
        let folder = fs::read_dir(self.folder(device).join("holders"));
        let names = folder.into_iter().flatten().flatten();
        names
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect()
    }

    fn mirror(&self, name: &str) -> Result<Mirror, LookError> {
        let folder = self.folder(name);
        let md = folder.join("md");
        let (mut durable, mut fast) = (None, None);
        for member in members(&md)? {
            let leg = self.leg(&member)?;
            // The fast leg is an array even of one device; the durable leg never is one.
            let place = if self.is_array(&leg.device) {
                &mut fast
            } else {
                &mut durable
            };
            *place = Some(leg);
        }
        Ok(Mirror {
            name: name.to_owned(),
            bytes: number(&folder.join("size"))? * SECTOR_BYTES,
            sync: sync(&md)?,
            durable,
            fast,
            mismatch_sectors: number(&md.join("mismatch_cnt"))?,
            knobs: knobs(&folder)?,
        })
    }

    fn is_array(&self, device: &str) -> bool {
        let digits = device.strip_prefix("md").unwrap_or_default();
        self.folder(device).join("md").is_dir()
            || (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
    }

    fn leg(&self, member: &Path) -> Result<Leg, LookError> {
        let device = device_of(member);
        let stat = self.folder(&device).join("stat");
        Ok(Leg {
            flags: Flags::from_words(&word(&member.join("state"))?),
            present: is_present(member),
            // `none` for one that has no place.
            slot: word(&member.join("slot"))?.parse().ok(),
            // `none` for one that is whole.
            filled_sectors: word(&member.join("recovery_start"))
                .ok()
                .and_then(|text| text.parse().ok()),
            healed_sectors: number(&member.join("errors"))?,
            bad_sectors: bad_sectors(&word(&member.join("bad_blocks"))?),
            // Gone together with the device.
            traffic: word(&stat).ok().as_deref().map(traffic).unwrap_or_default(),
            device,
        })
    }

    fn stripe(&self, name: &str) -> Result<Stripe, LookError> {
        let folder = self.folder(name);
        let md = folder.join("md");
        let mut slots = Vec::new();
        for member in members(&md)? {
            let device = device_of(&member);
            let present = is_present(&member);
            let slot: u32 = word(&member.join("slot"))?.parse().unwrap_or(u32::MAX);
            let size = number(&self.folder(&device).join("size")).unwrap_or(0);
            let bytes = if present { size * SECTOR_BYTES } else { 0 };
            slots.push((
                slot,
                Member {
                    device,
                    bytes,
                    present,
                },
            ));
        }
        slots.sort_by_key(|(slot, _)| *slot);
        Ok(Stripe {
            name: name.to_owned(),
            bytes: number(&folder.join("size"))? * SECTOR_BYTES,
            broken: word(&md.join("array_state"))? == "broken",
            members: slots.into_iter().map(|(_, member)| member).collect(),
        })
    }
}

/// The folders `dev-*` of an array, by name.
fn members(md: &Path) -> Result<Vec<PathBuf>, LookError> {
    let unread = |source| LookError::Read {
        path: md.to_owned(),
        source,
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(md).map_err(unread)? {
        let entry = entry.map_err(unread)?;
        if entry.file_name().to_string_lossy().starts_with("dev-") {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// `dev-sdb` is about `sdb`; md writes `!` for the `/` in names such as `cciss/c0d0`.
fn device_of(member: &Path) -> String {
    let name = member.file_name().unwrap_or_default().to_string_lossy();
    name.trim_start_matches("dev-").to_owned()
}

fn sync(md: &Path) -> Result<Sync, LookError> {
    let path = md.join("sync_action");
    let text = word(&path)?;
    let action = SyncAction::from_word(&text).ok_or_else(|| LookError::Read {
        path,
        source: io::Error::other(format!("{text} is no sync action we know")),
    })?;
    // `none`, `delayed`, or `12288 / 1048576`.
    let completed = word(&md.join("sync_completed"))?;
    let progress = completed
        .split_once(" / ")
        .and_then(|(done, all)| Some((done.parse().ok()?, all.parse().ok()?)));
    // `none` when nothing runs.
    let speed = word(&md.join("sync_speed"))?;
    Ok(Sync {
        action,
        progress,
        kib_per_second: speed.parse().unwrap_or(0),
    })
}

fn knobs(folder: &Path) -> Result<Knobs, LookError> {
    let md = folder.join("md");
    // `1000 (system)` or `25000 (local)`.
    let speed = |name: &str| {
        let path = md.join(name);
        let text = word(&path)?;
        parse(&path, text.split(' ').next().unwrap_or_default())
    };
    Ok(Knobs {
        max_read_errors: number(&md.join("max_read_errors"))?,
        sync_speed_min: speed("sync_speed_min")?,
        sync_speed_max: speed("sync_speed_max")?,
        rotational: number(&folder.join("queue/rotational"))? != 0,
        // No folder without a bitmap.
        backlog: match word(&md.join("bitmap/backlog")) {
            Ok(text) => parse(&md.join("bitmap/backlog"), &text)?,
            Err(_) => 0,
        },
        sync_ends_early: word(&md.join("sync_max"))? != "max",
    })
}

/// `first length` a line.
fn bad_sectors(text: &str) -> u64 {
    let lengths = text.lines().filter_map(|line| line.split(' ').nth(1));
    lengths
        .filter_map(|length| length.parse::<u64>().ok())
        .sum()
}

/// See the kernel's `Documentation/block/stat.rst`.
fn traffic(stat: &str) -> Traffic {
    let numbers: Vec<u64> = stat
        .split_whitespace()
        .filter_map(|one| one.parse().ok())
        .collect();
    match numbers[..] {
        [reads, _, _, read_ms, writes, _, _, write_ms, ..] => Traffic {
            reads,
            read_ms,
            writes,
            write_ms,
        },
        _ => Traffic::default(),
    }
}

fn number(path: &Path) -> Result<u64, LookError> {
    parse(path, &word(path)?)
}

fn parse(path: &Path, text: &str) -> Result<u64, LookError> {
    text.parse().map_err(|_| LookError::Read {
        path: path.to_owned(),
        source: io::Error::other(format!("{text:?} is not a number")),
    })
}

fn word(path: &Path) -> Result<String, LookError> {
    let text = fs::read_to_string(path).map_err(|source| LookError::Read {
        path: path.to_owned(),
        source,
    })?;
    Ok(text.trim().to_owned())
}
