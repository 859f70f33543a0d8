//! Fills [`Facts`] from sysfs, `/dev` and mountinfo under a root folder. Reads only, opens no disk, starts no program.
//!
//! The mirror is found through what belongs to it (the mount, the durable device, the local devices), never by its
//! number: the host may have given it a different one.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::facts::{Facts, Knobs, Leg, Member, Mirror, Mount, Stripe, Sync, Traffic};
use crate::{
    md::{
        self, Array, ArrayState, Knob,
        read::{Unread, array},
    },
    model::{Candidate, Device, Node, Request, Seen, Survey, Use},
    sysfs::{self, Nodes, ObserveError, SECTOR_BYTES, is_gone, names_in},
};

/// Why the running arrays could not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// The devices could not be found.
    #[error("failed to find the devices")]
    Devices(#[from] ObserveError),
    /// A file of sysfs could not be read or understood.
    #[error(transparent)]
    Read(#[from] Unread),
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
    let mut mounts = sysfs::own_mounts(root)?.into_iter().rev();
    let found = mounts.find(|mount| Path::new(&mount.at) == target);
    Ok(found.map(|found| {
        let name = sysfs_name(&root.join("sys/dev/block").join(&found.number));
        let mount = Mount {
            device: name.clone().unwrap_or(found.source),
            filesystem: found.filesystem,
            read_only: found.read_only,
        };
        (mount, name)
    }))
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
            Err(source) => Err(Unread { path, source }.into()),
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
        Ok(names_in(&path).map_err(Unread::of(&path))?)
    }

    fn mirror(&self, name: &str) -> Result<Mirror, LookError> {
        let found = array(self.root, name)?;
        let folder = self.folder(name);
        let (mut durable, mut fast) = (None, None);
        for member in &found.members {
            // The fast leg is an array even of one device; the durable leg never is one.
            let place = if self.is_array(&member.name) {
                &mut fast
            } else {
                &mut durable
            };
            *place = Some(self.leg(member, &folder)?);
        }
        let action = found.sync;
        let action = action.ok_or_else(|| not_understood(&folder.join("md/sync_action")))?;
        Ok(Mirror {
            knobs: knobs(&found, &folder)?,
            name: found.name,
            bytes: found.bytes,
            sync: Sync {
                action,
                progress: found.sync_progress,
                kib_per_second: found.sync_kib_per_second,
            },
            durable,
            fast,
            mismatch_sectors: found.mismatch_sectors,
        })
    }

    fn is_array(&self, device: &str) -> bool {
        let digits = device.strip_prefix("md").unwrap_or_default();
        self.folder(device).join("md").is_dir()
            || (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
    }

    fn leg(&self, member: &md::Member, mirror: &Path) -> Result<Leg, LookError> {
        let Seen::Present(bad_sectors) = member.bad_sectors else {
            let file = format!("md/dev-{}/bad_blocks", member.name);
            return Err(not_understood(&mirror.join(file)));
        };
        let stat = self.folder(&member.name).join("stat");
        let traffic = match sysfs::read(&stat) {
            Ok(text) => traffic(&text),
            // Gone together with the device.
            Err(error) if is_gone(&error) => Traffic::default(),
            Err(source) => return Err(Unread { path: stat, source }.into()),
        };
        Ok(Leg {
            device: member.name.clone(),
            flags: member.flags,
            present: member.is_present(),
            bytes: self.bytes_of(member),
            slot: member.slot,
            filled_sectors: member.filled_sectors,
            healed_sectors: member.errors,
            bad_sectors,
            traffic,
        })
    }

    /// Capacity of a member's device; 0 when it is gone.
    fn bytes_of(&self, member: &md::Member) -> u64 {
        if !member.is_present() {
            return 0;
        }
        let sectors = sysfs::number_in(&self.folder(&member.name).join("size"));
        sectors.unwrap_or(0) * SECTOR_BYTES
    }

    fn stripe(&self, name: &str) -> Result<Stripe, LookError> {
        let found = array(self.root, name)?;
        let member = |member: &md::Member| Member {
            device: member.name.clone(),
            bytes: self.bytes_of(member),
            present: member.is_present(),
        };
        Ok(Stripe {
            bytes: found.bytes,
            broken: found.state == ArrayState::Broken,
            members: found.members.iter().map(member).collect(),
            name: found.name,
        })
    }
}

/// All settings are there on a mirror that runs, but for the one of a bitmap.
fn knobs(mirror: &Array, folder: &Path) -> Result<Knobs, LookError> {
    let setting = |knob: Knob| {
        let value = mirror.knob(knob);
        value.ok_or_else(|| not_understood(&folder.join(knob.file())))
    };
    Ok(Knobs {
        max_read_errors: setting(Knob::MaxReadErrors)?,
        sync_speed_min: setting(Knob::SyncSpeedMin)?,
        sync_speed_max: setting(Knob::SyncSpeedMax)?,
        rotational: setting(Knob::Rotational)? != 0,
        backlog: mirror.knob(Knob::Backlog).unwrap_or(0),
        sync_ends_early: mirror.sync_ends_early,
    })
}

fn not_understood(path: &Path) -> LookError {
    let source = io::Error::other("it is not there, or says what no kernel that we know says");
    Unread::of(path)(source).into()
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
