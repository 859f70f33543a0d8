//! Reads `/sys/block/md*`: what md itself says, in its own words, each understood or kept.
//!
//! See Documentation/admin-guide/md.rst of Linux.

use std::{fs, io, path::Path};

use super::{Array, ArrayState, Knob, Member, Sync};
use crate::{
    model::{DeviceNumber, Seen},
    sysfs::{is_given_up, is_gone, names_in, number_in, read},
};

/// Every md array, by name. An array that goes away while it is looked at is left out.
pub(super) fn arrays(root: &Path) -> io::Result<Vec<Array>> {
    let folder = root.join("sys/block");
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.starts_with("md") && folder.join(&name).join("md").is_dir() {
            names.push(name);
        }
    }
    names.sort_unstable();
    let mut arrays = Vec::new();
    for name in names {
        match array(&folder.join(&name), &name) {
            Ok(array) => arrays.push(array),
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(arrays)
}

/// A file that not every array has; `None` where it is missing.
fn optional<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A number that is empty, or not there, while an array has not been started: 0 then.
fn number_once_started(path: &Path) -> io::Result<u64> {
    match optional(read(path))? {
        Some(text) if !text.is_empty() => number_in(path),
        Some(_) | None => Ok(0),
    }
}

fn array(folder: &Path, name: &str) -> io::Result<Array> {
    let md = folder.join("md");
    let word = |file: &str| read(&md.join(file));
    let state = match word("array_state")?.as_str() {
        "clear" | "inactive" => ArrayState::Inactive,
        "clean" | "active" | "active-idle" | "write-pending" => ArrayState::Running,
        "read-auto" => ArrayState::ReadAuto,
        "readonly" => ArrayState::ReadOnly,
        "broken" => ArrayState::Broken,
        other => ArrayState::Other(other.to_owned()),
    };
    // Stripes have none of these.
    let sync = match optional(word("sync_action"))?.as_deref() {
        Some("idle" | "") | None => Sync::Idle,
        Some("resync") => Sync::Resync,
        Some("recover") => Sync::Recover,
        Some("check") => Sync::Check,
        Some("repair") => Sync::Repair,
        Some(other) => Sync::Other(other.to_owned()),
    };
    let resync = optional(word("resync_start"))?;
    let unclean = resync.is_some_and(|text| text.parse::<u64>().is_ok());
    let mut members = members(&md, name)?;
    members.sort_by_key(|member| (member.slot.unwrap_or(u16::MAX), member.name.clone()));
    Ok(Array {
        name: name.to_owned(),
        number: device_number(&read(&folder.join("dev"))?)?,
        level: optional(word("level"))?.unwrap_or_default(),
        state,
        raid_disks: number_once_started(&md.join("raid_disks"))?,
        bytes: number_in(&folder.join("size"))?.saturating_mul(512),
        component_kib: number_once_started(&md.join("component_size"))?,
        sync,
        sync_progress: word("sync_completed").ok().and_then(|text| progress(&text)),
        unclean,
        members,
        // Empty means that nothing is built upon it: an error must not say so.
        holders: names_in(&folder.join("holders"))?,
        knobs: knobs(folder),
    })
}

/// `8:16`, as files named `dev` have it.
pub(super) fn device_number(text: &str) -> io::Result<DeviceNumber> {
    let numbers = text.split_once(':').and_then(|(major, minor)| {
        Some(DeviceNumber {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
        })
    });
    numbers.ok_or_else(|| io::Error::other(format!("{text} is no device number")))
}

/// `1024 / 4096`, or `none`.
fn progress(text: &str) -> Option<(u64, u64)> {
    let (done, all) = text.split_once('/')?;
    Some((done.trim().parse().ok()?, all.trim().parse().ok()?))
}

/// Settings that this kernel has and that are numbers: `1000 (local)` is one.
fn knobs(folder: &Path) -> Vec<(Knob, u64)> {
    let value = |knob: Knob| {
        let text = read(&folder.join(knob.file())).ok()?;
        text.split_whitespace().next()?.parse().ok()
    };
    Knob::ALL
        .into_iter()
        .filter_map(|knob| Some((knob, value(knob)?)))
        .collect()
}

fn members(md: &Path, array: &str) -> io::Result<Vec<Member>> {
    let mut members = Vec::new();
    for entry in fs::read_dir(md)? {
        let entry = entry?;
        let file = entry.file_name().to_string_lossy().into_owned();
        let Some(name) = file.strip_prefix("dev-") else {
            continue;
        };
        match member(&entry.path(), name, array) {
            Ok(member) => members.push(member),
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(members)
}

fn member(folder: &Path, name: &str, array: &str) -> io::Result<Member> {
    let state = read(&folder.join("state"))?;
    // The link of a device that has gone leads to the one that came in its place: nothing is built upon that.
    let held = folder.join("block/holders").join(array).exists();
    let has = |flag: &str| state.split(',').any(|word| word == flag);
    let number = match read(&folder.join("block/dev")) {
        Ok(_) if !held => Seen::Absent,
        Ok(text) => Seen::Present(device_number(&text)?),
        Err(error) if is_gone(&error) => Seen::Absent,
        Err(error) => Seen::Unknown(error.to_string()),
    };
    Ok(Member {
        name: name.to_owned(),
        number,
        // `none` for one that has no place.
        slot: optional(read(&folder.join("slot")))?.and_then(|text| text.parse().ok()),
        faulty: is_given_up(&state),
        in_sync: has("in_sync"),
        write_mostly: has("write_mostly"),
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
