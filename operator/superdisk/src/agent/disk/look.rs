//! Finds what runs of a super-disk: from sysfs alone, or also from the superblocks of its components.

use std::{
    collections::BTreeMap,
    io,
    sync::{MutexGuard, PoisonError},
};

use super::SuperDisk;
use crate::{
    heal::{
        facts::{Facts, Leg, Member},
        observe::{LookError, look, unseen},
    },
    inventory::{Blocks, Devices},
    model::Request,
    superblock,
    sysfs::{self, FileSystem},
};

/// Arrays by name, with the number that the kernel gives to a block device only once.
pub(super) type Proven = BTreeMap<String, u64>;

/// A component of an array: its kernel name, while its device is still there.
type Component<'a> = (&'a str, bool);

impl SuperDisk {
    fn request(&self) -> Request {
        Request {
            durable: Some(self.spec.durable.clone()),
            local: self.spec.local.clone(),
            local_count: self.spec.local_count,
        }
    }

    /// Looks at what runs. Asks no disk.
    pub fn look(&self) -> Result<Facts, LookError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (target, root) = (&self.spec.mount, &self.root);
        let facts = look(&self.request(), target, known.as_deref(), root, &FileSystem)?;
        if let Some(mirror) = &facts.mirror {
            *known = Some(mirror.name.clone());
        }
        if is_mounted(&facts) {
            self.prove(&facts);
        }
        Ok(facts)
    }

    /// The same, without arrays whose superblocks say that they are another volume's: a kernel name may have gone
    /// over to another disk. Asks disks, and fails when nobody can say whose an array is.
    pub fn look_closely(&self) -> Result<Facts, LookError> {
        let mut facts = self.look()?;
        if let Some(mirror) = &facts.mirror
            && !is_mounted(&facts)
        {
            let legs = mirror.durable.iter().chain(&mirror.fast);
            let legs = legs.map(|leg: &Leg| (&*leg.device, leg.present));
            if !self.is_ours(&mirror.name, legs, &self.spec.volume.mirror_name())? {
                facts.mirror = None;
            }
        }
        if let (None, Some(stripe)) = (&facts.mirror, &facts.stripe) {
            let members = stripe.members.iter();
            let members = members.map(|member: &Member| (&*member.device, member.present));
            if !self.is_ours(&stripe.name, members, &self.spec.volume.stripe_name())? {
                facts.stripe = None;
            }
        }
        self.prove(&facts);
        if facts.mirror.is_none()
            && facts.stripe.is_none()
            && let Some((path, why)) = unseen(&self.request(), &self.root, &FileSystem)?
        {
            return Err(LookError::Unseen { path, why });
        }
        Ok(facts)
    }

    fn proven(&self) -> MutexGuard<'_, Proven> {
        self.proven.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers that these arrays are ours: their disks may answer nothing any more when it is asked the next time.
    fn prove(&self, facts: &Facts) {
        let mirror = facts.mirror.as_ref().map(|mirror| &mirror.name);
        let stripe = facts.stripe.as_ref().map(|stripe| &stripe.name);
        // One that the mirror has let go of may be another's by now: its members are asked.
        let inside = facts.mirror.as_ref().is_none_or(|mirror| {
            let fast = mirror.fast.as_ref().map(|leg| &leg.device);
            fast == stripe
        });
        for name in mirror.into_iter().chain(stripe.filter(|_| inside)) {
            if let Some(number) = self.device_number_of(name) {
                self.proven().insert(name.clone(), number);
            }
        }
    }

    fn device_number_of(&self, array: &str) -> Option<u64> {
        let file = self.root.join("sys/block").join(array).join("diskseq");
        sysfs::number_in(&file).ok()
    }

    /// Whether an array is the one that we call `name`.
    fn is_ours<'a>(
        &self,
        array: &str,
        components: impl Iterator<Item = Component<'a>>,
        name: &str,
    ) -> Result<bool, LookError> {
        let number = self.device_number_of(array);
        if number.is_some() && self.proven().get(array).copied() == number {
            return Ok(true);
        }
        self.says(components, name)
    }

    /// Whether these devices say that they are components of the array `name`. The first that has a superblock decides,
    /// for all components of an array have the same name. An error when none has one and not all could be read: a disk
    /// that does not say whose it is, is not another's.
    fn says<'a>(
        &self,
        components: impl Iterator<Item = Component<'a>>,
        name: &str,
    ) -> Result<bool, LookError> {
        let mut silent = None;
        for (device, present) in components {
            // By the name of one that has gone, another may have come.
            let found = if present {
                self.array_on(device)
            } else {
                Err(io::ErrorKind::NotFound.into())
            };
            match found {
                Ok(Some(array)) => return Ok(array == name),
                Ok(None) => {}
                Err(source) => {
                    silent = Some(LookError::Silent {
                        device: device.to_owned(),
                        source,
                    });
                }
            }
        }
        silent.map_or(Ok(false), Err)
    }

    /// The name of the array whose component a device is; `None` for one without a superblock.
    fn array_on(&self, device: &str) -> io::Result<Option<String>> {
        let node = self.root.join("dev").join(device);
        let page = Devices.read(&node, superblock::OFFSET, superblock::BYTES as u64)?;
        let found = superblock::parse(&page);
        let found = found.map_err(|damaged| io::Error::other(damaged.to_string()))?;
        Ok(found.map(|found| found.short_name().to_owned()))
    }
}

/// Whether the mirror is mounted where the super-disk belongs.
pub(super) fn is_mounted(facts: &Facts) -> bool {
    let mounted = facts.mount.as_ref().map(|mount| &mount.device);
    let mirror = facts.mirror.as_ref().map(|mirror| &mirror.name);
    mirror.is_some() && mounted == mirror
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File},
        path::Path,
        sync::mpsc,
        time::Duration,
    };

    use super::super::{SuperDisk, tests::node};
    use crate::{
        assemble::chain,
        heal::tests::healthy,
        inventory::{read_direct, read_within},
    };

    /// What the superblock of `durable` calls its array.
    const MIRROR: &str = "sd1-d996ce1e07092935";

    /// The first 16 KiB of a durable leg that mdadm wrote.
    fn durable() -> Vec<u8> {
        let mut bytes = vec![0; 16 << 10];
        for line in include_str!("../../../tests/fixtures/mdadm/durable").lines() {
            let (at, hex) = line.split_once(' ').unwrap();
            let at = usize::from_str_radix(at, 16).unwrap();
            for index in 0..hex.len() / 2 {
                bytes[at + index] = u8::from_str_radix(&hex[2 * index..2 * index + 2], 16).unwrap();
            }
        }
        bytes
    }

    fn write_device(root: &Path, name: &str, bytes: &[u8]) {
        fs::create_dir_all(root.join("dev")).unwrap();
        fs::write(root.join("dev").join(name), bytes).unwrap();
    }

    fn says(disk: &SuperDisk, devices: &[&str], name: &str) -> Result<bool, String> {
        let components = devices.iter().map(|device| (*device, true));
        disk.says(components, name).map_err(|error| chain(&error))
    }

    #[test]
    fn a_component_says_whose_it_is() {
        let (root, disk) = node();
        write_device(root.path(), "sdb", &durable());
        write_device(root.path(), "blank", &[0; 16 << 10]);
        assert_eq!(says(&disk, &["blank", "sdb"], MIRROR), Ok(true));
        assert_eq!(says(&disk, &["sdb"], "sd1-of-another-volume"), Ok(false));
        assert_eq!(says(&disk, &["blank"], MIRROR), Ok(false));
        assert_eq!(says(&disk, &[], MIRROR), Ok(false));
    }

    #[test]
    fn what_cannot_be_read_is_not_taken_for_anothers_unless_another_component_says_so() {
        let (root, disk) = node();
        let mut damaged = durable();
        damaged[4096 + 100] ^= 1;
        write_device(root.path(), "damaged", &damaged);
        write_device(root.path(), "short", &[]);
        write_device(root.path(), "sdb", &durable());
        // A folder can be opened, and every read of it fails.
        fs::create_dir(root.path().join("dev/broken")).unwrap();
        for silent in ["broken", "damaged", "short", "gone"] {
            let error = says(&disk, &[silent], MIRROR).unwrap_err();
            let begins = format!("failed to read whose component {silent} is: ");
            assert!(error.starts_with(&begins), "{error}");
            let decided = |name| says(&disk, &[silent, "sdb"], name);
            assert_eq!(decided(MIRROR), Ok(true));
            assert_eq!(decided("sd1-of-another-volume"), Ok(false));
        }
        // What has come by the name of a component that is gone says nothing about the array.
        let gone = [("sdb", false)].into_iter();
        assert!(disk.says(gone, "sd1-of-another-volume").is_err());
    }

    #[test]
    fn an_array_that_was_ours_is_ours_while_its_disks_answer_nothing() {
        let (root, disk) = node();
        let number = |text: &str| {
            for array in ["md100", "md101"] {
                let folder = root.path().join("sys/block").join(array);
                fs::create_dir_all(&folder).unwrap();
                fs::write(folder.join("diskseq"), text).unwrap();
            }
        };
        let is_ours = |array| {
            let dead = [("gone", true)].into_iter();
            disk.is_ours(array, dead, MIRROR)
                .map_err(|error| chain(&error))
        };
        number("7");
        assert!(is_ours("md101").is_err());
        disk.prove(&healthy());
        assert_eq!([is_ours("md101"), is_ours("md100")], [Ok(true), Ok(true)]);
        // Another array has come by these names.
        number("8");
        assert!(is_ours("md101").is_err() && is_ours("md100").is_err());
        // A stripe that the mirror has let go of has to say it itself.
        let mut kicked = healthy();
        kicked.mirror.as_mut().unwrap().fast = None;
        disk.prove(&kicked);
        assert_eq!(is_ours("md101"), Ok(true));
        assert!(is_ours("md100").is_err());
    }

    #[test]
    fn a_disk_that_does_not_answer_is_not_asked_again_and_not_taken_for_anothers() {
        let (root, disk) = node();
        write_device(root.path(), "sdb", &durable());
        write_device(root.path(), "sdc", &durable());
        let (answer, hangs) = mpsc::channel::<()>();
        let read = move || {
            // Ends with the test, whatever comes of that.
            let _ = hangs.recv();
            Ok(Vec::new())
        };
        read_within(Duration::ZERO, &root.path().join("dev/sdb"), read).unwrap_err();
        let error = says(&disk, &["sdb"], MIRROR).unwrap_err();
        let text = "failed to read whose component sdb is: it does not answer within 30 s";
        assert_eq!(error, text);
        // Another one can say it.
        assert_eq!(says(&disk, &["sdb", "sdc"], MIRROR), Ok(true));
        drop(answer);
    }

    /// Bytes that a thread or a process has had read from disks: what comes from the page cache is not counted.
    fn read_bytes(whose: &str) -> u64 {
        let text = fs::read_to_string(format!("/proc/{whose}/io")).unwrap_or_default();
        let found = text
            .lines()
            .find_map(|line| line.strip_prefix("read_bytes: "));
        found.map_or(0, |number| number.parse().unwrap())
    }

    #[test]
    fn a_superblock_is_read_past_the_page_cache() {
        let (root, disk) = node();
        write_device(root.path(), "sdb", &durable());
        let path = root.path().join("dev/sdb");
        File::open(&path).unwrap().sync_all().unwrap();
        // What was written is in the page cache, too. Whether reads past it are counted depends on the filesystem.
        let before = read_bytes("thread-self");
        assert_eq!(read_direct(&path, 0, 4096).unwrap().len(), 4096);
        if read_bytes("thread-self") == before {
            eprintln!("reads past the page cache are not counted here: nothing is tested");
            return;
        }
        let before = read_bytes("self");
        assert_eq!(says(&disk, &["sdb"], MIRROR), Ok(true));
        assert!(read_bytes("self") > before);
    }
}
