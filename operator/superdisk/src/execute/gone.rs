//! Waits until an array that was stopped is gone from sysfs.

use std::{path::Path, time::Duration};

use super::retry;
use crate::sysfs::read;

/// How long an array may hold on to its members after it was stopped.
pub(super) const GONE: Duration = Duration::from_secs(20);
/// How long one that holds nothing any more may stay.
const EMPTY: Duration = Duration::from_secs(3);

/// mdadm comes back from `--stop` before the kernel has taken the array away; a new one of that name would
/// meet the old one's remains.
///
/// Where udev opens the node of an array that has just been stopped, the kernel makes an empty one by that name, which
/// stays until it is stopped, too. It holds nothing: one that comes again is left.
pub(super) fn wait_until_gone(folder: &Path, stop_again: &dyn Fn()) -> Result<(), ()> {
    let is_empty = || read(&folder.join("md/array_state")).is_ok_and(|state| state == "clear");
    let unless = |there: bool| if there { Err(()) } else { Ok(()) };
    retry(GONE, || unless(folder.exists() && !is_empty()))?;
    if retry(EMPTY, || unless(folder.exists())).is_err() && is_empty() {
        stop_again();
        let _left = retry(EMPTY, || unless(folder.exists()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, fs};

    use super::*;

    #[test]
    fn an_empty_array_that_udev_has_made_is_stopped_and_no_reason_to_fail() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("md200");
        let md = folder.join("md");
        for goes in [true, false] {
            fs::create_dir_all(&md).unwrap();
            fs::write(md.join("array_state"), "clear\n").unwrap();
            let stopped = Cell::new(0);
            let stop = || {
                stopped.set(stopped.get() + 1);
                if goes {
                    fs::remove_dir_all(&folder).unwrap();
                }
            };
            assert_eq!(wait_until_gone(&folder, &stop), Ok(()));
            assert_eq!(stopped.get(), 1, "{goes}");
        }
    }

    #[test]
    fn an_array_that_goes_by_itself_is_not_stopped_again() {
        let root = tempfile::tempdir().unwrap();
        let stop = || panic!("it is gone");
        assert_eq!(wait_until_gone(&root.path().join("md200"), &stop), Ok(()));
    }
}
