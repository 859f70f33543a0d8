//! Reads arrays from `/sys/block/md*`: what md itself says, in its own words, each understood or kept.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use strum::VariantArray;

use super::{Array, ArrayState, Flags, Knob, Member, SyncAction};
use crate::{
    model::{DeviceNumber, Seen},
    sysfs::{self, is_gone, names_in},
};

/// A file of an array could not be read, or not understood.
#[derive(Debug, thiserror::Error)]
#[error("failed to read {path}")]
pub struct Unread {
    /// Which one.
    pub path: PathBuf,
    pub source: io::Error,
}

impl Unread {
    /// Of this file.
    pub fn of(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self {
            path: path.to_owned(),
            source,
        }
    }

    fn is_gone(&self) -> bool {
        is_gone(&self.source)
    }
}

/// What to make of a member that goes away while it is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Vanished {
    IsLeftOut,
    IsAnError,
}

/// Every md array, by name. An array that goes away while it is looked at is left out, and so is a member.
pub fn arrays(root: &Path) -> Result<Vec<Array>, Unread> {
    let folder = root.join("sys/block");
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).map_err(Unread::of(&folder))? {
        let entry = entry.map_err(Unread::of(&folder))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("md") && folder.join(&name).join("md").is_dir() {
            names.push(name);
        }
    }
    names.sort_unstable();
    let mut arrays = Vec::new();
    for name in names {
        match read(&folder.join(&name), &name, Vanished::IsLeftOut) {
            Ok(array) => arrays.push(array),
            Err(error) if error.is_gone() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(arrays)
}

/// The array of this name. An error when it goes away meanwhile, or a member does: a leg that was not seen would be taken
/// for one that was removed.
pub fn array(root: &Path, name: &str) -> Result<Array, Unread> {
    let folder = root.join("sys/class/block").join(name);
    read(&folder, name, Vanished::IsAnError)
}

fn read(folder: &Path, name: &str, vanished: Vanished) -> Result<Array, Unread> {
    let md = folder.join("md");
    let state = ArrayState::from_word(&word(&md.join("array_state"))?);
    // Stripes have none of these.
    let sync = match optional(&md.join("sync_action"))?.as_deref() {
        Some("") | None => Some(SyncAction::Idle),
        Some(word) => SyncAction::from_word(word),
    };
    let resync = optional(&md.join("resync_start"))?;
    let unclean = resync.is_some_and(|text| text.parse::<u64>().is_ok());
    let sync_max = optional(&md.join("sync_max"))?;
    let mut members = members(&md, name, vanished)?;
    members.sort_by_key(|member| (member.slot.unwrap_or(u16::MAX), member.name.clone()));
    let holders = folder.join("holders");
    Ok(Array {
        name: name.to_owned(),
        number: device_number_in(&folder.join("dev"))?,
        level: optional(&md.join("level"))?.unwrap_or_default(),
        state,
        raid_disks: number_once_started(&md.join("raid_disks"))?,
        bytes: number(&folder.join("size"))?.saturating_mul(sysfs::SECTOR_BYTES),
        component_kib: number_once_started(&md.join("component_size"))?,
        sync,
        sync_progress: progress(&md.join("sync_completed")),
        // `none` when nothing is copied.
        sync_kib_per_second: optional(&md.join("sync_speed"))?
            .and_then(|text| text.parse().ok())
            .unwrap_or(0),
        sync_ends_early: sync_max.is_some_and(|text| text != "max"),
        mismatch_sectors: number_once_started(&md.join("mismatch_cnt"))?,
        unclean,
        members,
        // Empty means that nothing is built upon it: an error must not say so.
        holders: names_in(&holders).map_err(Unread::of(&holders))?,
        knobs: knobs(folder),
    })
}

fn word(path: &Path) -> Result<String, Unread> {
    sysfs::read(path).map_err(Unread::of(path))
}

/// A file that not every array has; `None` where it is missing.
fn optional(path: &Path) -> Result<Option<String>, Unread> {
    match word(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.is_gone() => Ok(None),
        Err(error) => Err(error),
    }
}

fn number(path: &Path) -> Result<u64, Unread> {
    sysfs::number_in(path).map_err(Unread::of(path))
}

/// A number that is empty, or not there, while an array has not been started: 0 then.
fn number_once_started(path: &Path) -> Result<u64, Unread> {
    match optional(path)? {
        Some(text) if !text.is_empty() => number(path),
        Some(_) | None => Ok(0),
    }
}

/// `8:16`, as files named `dev` have it.
pub(crate) fn device_number(text: &str) -> io::Result<DeviceNumber> {
    let numbers = text.split_once(':').and_then(|(major, minor)| {
        Some(DeviceNumber {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
        })
    });
    numbers.ok_or_else(|| io::Error::other(format!("{text} is no device number")))
}

fn device_number_in(path: &Path) -> Result<DeviceNumber, Unread> {
    device_number(&word(path)?).map_err(Unread::of(path))
}

/// `1024 / 4096`; `none` and `delayed` where there is none.
fn progress(path: &Path) -> Option<(u64, u64)> {
    let text = sysfs::read(path).ok()?;
    let (done, all) = text.split_once('/')?;
    Some((done.trim().parse().ok()?, all.trim().parse().ok()?))
}

/// Settings that this kernel has and that are numbers: `1000 (local)` is one.
fn knobs(folder: &Path) -> Vec<(Knob, u64)> {
    let value = |knob: Knob| {
        let text = sysfs::read(&folder.join(knob.file())).ok()?;
        text.split_whitespace().next()?.parse().ok()
    };
    Knob::VARIANTS
        .iter()
        .filter_map(|&knob| Some((knob, value(knob)?)))
        .collect()
}

fn members(md: &Path, array: &str, vanished: Vanished) -> Result<Vec<Member>, Unread> {
    let mut members = Vec::new();
    for entry in fs::read_dir(md).map_err(Unread::of(md))? {
        let entry = entry.map_err(Unread::of(md))?;
        let file = entry.file_name().to_string_lossy().into_owned();
        let Some(name) = file.strip_prefix("dev-") else {
            continue;
        };
        match member(&entry.path(), name, array) {
            Ok(member) => members.push(member),
            Err(error) if vanished == Vanished::IsLeftOut && error.is_gone() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(members)
}

fn member(folder: &Path, name: &str, array: &str) -> Result<Member, Unread> {
    // The link of a device that has gone leads to the one that came in its place: nothing is built upon that.
    let held = folder.join("block/holders").join(array).exists();
    let device = folder.join("block/dev");
    let number = match sysfs::read(&device) {
        Ok(_) if !held => Seen::Absent,
        Ok(text) => Seen::Present(device_number(&text).map_err(Unread::of(&device))?),
        Err(error) if is_gone(&error) => Seen::Absent,
        Err(error) => Seen::Unknown(error.to_string()),
    };
    // Both are `none` for one that has no place, or that is whole.
    let slot = optional(&folder.join("slot"))?;
    let filled = optional(&folder.join("recovery_start"))?;
    Ok(Member {
        name: name.to_owned(),
        number,
        slot: slot.and_then(|text| text.parse().ok()),
        flags: Flags::from_words(&word(&folder.join("state"))?),
        filled_sectors: filled.and_then(|text| text.parse().ok()),
        errors: number_once_started(&folder.join("errors"))?,
        bad_sectors: bad_sectors(&folder.join("bad_blocks")),
    })
}

/// Lines of `start length`; a long list is cut off at a page, and then counts what was seen.
fn bad_sectors(file: &Path) -> Seen<u64> {
    match fs::read_to_string(file) {
        Ok(text) => {
            let lengths = text
                .lines()
                .filter_map(|line| line.split_whitespace().nth(1));
            Seen::Present(
                lengths
                    .filter_map(|length| length.parse::<u64>().ok())
                    .sum(),
            )
        }
        Err(error) if is_gone(&error) => Seen::Absent,
        Err(error) => Seen::Unknown(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    /// What udev leaves of an array for a moment: it has a number, and nothing else.
    fn not_started() -> TempDir {
        let root = TempDir::new().unwrap();
        let folder = root.path().join("sys/block/md126");
        fs::create_dir_all(folder.join("md")).unwrap();
        fs::create_dir(folder.join("holders")).unwrap();
        for (file, text) in [
            ("dev", "9:126\n"),
            ("size", "0\n"),
            ("md/array_state", "clear\n"),
            ("md/level", "\n"),
            ("md/raid_disks", "\n"),
            ("md/component_size", "0\n"),
        ] {
            fs::write(folder.join(file), text).unwrap();
        }
        root
    }

    #[test]
    fn an_array_that_has_not_been_started_is_seen_without_its_numbers() {
        let root = not_started();
        let found = arrays(root.path()).unwrap();
        assert_eq!(found[0].state, ArrayState::Inactive);
        assert_eq!((found[0].raid_disks, found[0].component_kib), (0, 0));
    }

    #[test]
    fn what_holds_an_array_is_not_nothing_when_it_cannot_be_read() {
        let root = not_started();
        let holders = root.path().join("sys/block/md126/holders");
        fs::remove_dir(&holders).unwrap();
        fs::write(&holders, "").unwrap();
        arrays(root.path()).unwrap_err();
    }
}
