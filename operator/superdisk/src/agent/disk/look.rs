//! Finds what runs of a super-disk: from sysfs alone, or also from the superblocks of its components.

use std::{io, sync::PoisonError};

use super::SuperDisk;
use crate::{
    heal::{
        facts::Facts,
        observe::{LookError, look},
    },
    inventory::{Blocks, Devices},
    model::Request,
    superblock,
    sysfs::FileSystem,
};

impl SuperDisk {
    /// Looks at what runs. Asks no disk.
    pub fn look(&self) -> Result<Facts, LookError> {
        let request = Request {
            durable: Some(self.spec.durable.clone()),
            local: self.spec.local.clone(),
            local_count: self.spec.local_count,
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (target, root) = (&self.spec.mount, &self.root);
        let facts = look(&request, target, known.as_deref(), root, &FileSystem)?;
        if let Some(mirror) = &facts.mirror {
            *known = Some(mirror.name.clone());
        }
        Ok(facts)
    }

    /// The same, without arrays whose superblocks say that they are another volume's: a kernel name may have gone
    /// over to another disk. Asks disks, and fails when one that matters does not answer.
    pub fn look_closely(&self) -> Result<Facts, LookError> {
        let mut facts = self.look()?;
        let mounted = facts.mount.as_ref().map(|mount| mount.device.clone());
        if let Some(mirror) = &facts.mirror
            && mounted.as_ref() != Some(&mirror.name)
        {
            let legs = mirror.durable.iter().chain(&mirror.fast);
            let legs = legs.map(|leg| &*leg.device);
            if !self.any_says(legs, &self.spec.volume.mirror_name())? {
                facts.mirror = None;
            }
        }
        if let (None, Some(stripe)) = (&facts.mirror, &facts.stripe) {
            let members = stripe.members.iter().map(|member| &*member.device);
            if !self.any_says(members, &self.spec.volume.stripe_name())? {
                facts.stripe = None;
            }
        }
        Ok(facts)
    }

    /// Whether one of these devices says that it is a component of the array `name`. An error when none does and one
    /// does not answer: it may be the one.
    fn any_says<'a>(
        &self,
        devices: impl Iterator<Item = &'a str>,
        name: &str,
    ) -> Result<bool, LookError> {
        let mut silent = None;
        for device in devices {
            match self.says(device, name) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(error) => silent = Some(error),
            }
        }
        silent.map_or(Ok(false), Err)
    }

    /// Whether the superblock of a device says that it is a component of the array `name`.
    fn says(&self, device: &str, name: &str) -> Result<bool, LookError> {
        let node = self.root.join("dev").join(device);
        match Devices.read(&node, superblock::OFFSET, superblock::BYTES as u64) {
            Ok(page) => {
                let found = superblock::parse(&page).ok().flatten();
                Ok(found.is_some_and(|found| found.short_name() == name))
            }
            Err(source) if source.kind() == io::ErrorKind::TimedOut => Err(LookError::Silent {
                device: device.to_owned(),
                source,
            }),
            // Gone, or nothing can be read from it.
            Err(_) => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File},
        path::Path,
        sync::mpsc,
        time::Duration,
    };

    use super::super::tests::node;
    use crate::{
        assemble::chain,
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

    #[test]
    fn a_component_says_whose_it_is() {
        let (root, disk) = node();
        write_device(root.path(), "sdb", &durable());
        write_device(root.path(), "blank", &[0; 16 << 10]);
        write_device(root.path(), "short", &[]);
        let says = |devices: &[&str], name| disk.any_says(devices.iter().copied(), name).unwrap();
        assert!(says(&["blank", "sdb"], MIRROR));
        assert!(!says(&["sdb"], "sd1-of-another-volume"));
        assert!(!says(&["blank", "short", "gone"], MIRROR));
        assert!(!says(&[], MIRROR));
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
        let error = disk.any_says(["sdb"].into_iter(), MIRROR).unwrap_err();
        let text = "failed to read whose component sdb is: it does not answer within 30 s";
        assert_eq!(chain(&error), text);
        // Another one can say it.
        assert!(disk.any_says(["sdb", "sdc"].into_iter(), MIRROR).unwrap());
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
        assert!(disk.any_says(["sdb"].into_iter(), MIRROR).unwrap());
        assert!(read_bytes("self") > before);
    }
}
