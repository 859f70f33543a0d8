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
    sysfs::{self, Nodes, ObserveError, is_gone, names_in},
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
    /// A disk was asked whose component it is, and does not say.
    #[error("failed to read whose component {device} is")]
    Silent { device: String, source: io::Error },
    /// Nothing runs as far as can be seen, and not everything can be seen.
    #[error("failed to find out what uses {path}: {why}")]
    Unseen { path: PathBuf, why: String },
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
    let mirror = arrays.find_mirror(mount.as_ref(), durable, &local, known)?;
    let mirror = match mirror {
        Some(name) => Some(arrays.mirror(&name)?),
        None => None,
    };
    let in_mirror = mirror.as_ref().and_then(|mirror| mirror.fast.as_ref());
    let stripe = match arrays.find_stripe(in_mirror, &local)? {
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

/// A device of `request` of which it cannot be told what uses it, and why: while there is one, an array that was not found
/// may run all the same.
pub fn unseen(
    request: &Request,
    root: &Path,
    nodes: &dyn Nodes,
) -> Result<Option<(PathBuf, String)>, LookError> {
    let survey = sysfs::observe(request, root, nodes)?;
    let mut devices = survey.durable.into_iter().chain(survey.local);
    Ok(devices.find_map(|candidate| match candidate.node {
        Seen::Unknown(why) => Some((candidate.path, why)),
        Seen::Present(_) | Seen::Absent => None,
    }))
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

    fn is_level(&self, name: &str, level: &str) -> Result<bool, LookError> {
        let path = self.folder(name).join("md/level");
        match fs::read_to_string(&path) {
            Ok(text) => Ok(text.trim() == level),
            // Gone, or no array.
            Err(error) if is_gone(&error) => Ok(false),
            Err(source) => Err(LookError::Read { path, source }),
        }
    }

    fn find_mirror(
        &self,
        mount: Option<&(Mount, Option<String>)>,
        durable: Option<&Device>,
        local: &[&Device],
        known: Option<&str>,
    ) -> Result<Option<String>, LookError> {
        if let Some((_, Some(name))) = mount
            && self.is_level(name, "raid1")?
        {
            return Ok(Some(name.clone()));
        }
        if let Some(name) = self.holders_of(durable.as_slice(), "raid1")?.first() {
            return Ok(Some(name.clone()));
        }
        for stripe in self.holders_of(local, "raid0")? {
            for name in self.holders(&stripe)? {
                if Some(name.as_str()) == known && self.is_level(&name, "raid1")? {
                    return Ok(Some(name));
                }
            }
        }
        Ok(None)
    }

    /// The mirror's stripe; without one, a stripe of the local devices that no array stands on: another mirror's is none
    /// of ours.
    fn find_stripe(
        &self,
        fast: Option<&Leg>,
        local: &[&Device],
    ) -> Result<Option<String>, LookError> {
        if let Some(leg) = fast
            && self.is_level(&leg.device, "raid0")?
        {
            return Ok(Some(leg.device.clone()));
        }
        for stripe in self.holders_of(local, "raid0")? {
            if self.holders(&stripe)?.is_empty() {
                return Ok(Some(stripe));
            }
        }
        Ok(None)
    }

    /// The arrays of `level` that hold one of `devices`, each once.
    fn holders_of(&self, devices: &[&Device], level: &str) -> Result<Vec<String>, LookError> {
        let mut found = Vec::new();
        for device in devices {
            for name in self.holders(&device.name)? {
                if !found.contains(&name) && self.is_level(&name, level)? {
                    found.push(name);
                }
            }
        }
        Ok(found)
    }

    fn holders(&self, device: &str) -> Result<Vec<String>, LookError> {
        let path = self.folder(device).join("holders");
        names_in(&path).map_err(|source| LookError::Read { path, source })
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
            filled_sectors: optional(&member.join("recovery_start"))?
                .and_then(|text| text.parse().ok()),
            healed_sectors: number(&member.join("errors"))?,
            bad_sectors: bad_sectors(&word(&member.join("bad_blocks"))?),
            // Gone together with the device.
            traffic: optional(&stat)?.as_deref().map(traffic).unwrap_or_default(),
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
        backlog: match optional(&md.join("bitmap/backlog"))? {
            Some(text) => parse(&md.join("bitmap/backlog"), &text)?,
            None => 0,
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
    sysfs::read(path).map_err(|source| LookError::Read {
        path: path.to_owned(),
        source,
    })
}

/// A file that is not always there; `None` where it is not.
fn optional(path: &Path) -> Result<Option<String>, LookError> {
    match sysfs::read(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(source) => Err(LookError::Read {
            path: path.to_owned(),
            source,
        }),
    }
}
