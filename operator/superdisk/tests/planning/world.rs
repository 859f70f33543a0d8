//! A node with md on it, as small as the planner's questions allow: superblocks, bitmaps, which leg copies to
//! which, and what a power cut leaves. What it says of md is held to the real one by the disk machine.

mod act;

use std::{collections::BTreeMap, path::PathBuf};

use superdisk::md::Knob;

use crate::bytes::{BLOCK, Bits, FAULTY, Sb, Sparse};

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const DURABLE: &str = "vda";
const SB: u64 = 4096;
const BITMAP: u64 = 8192;
const DATA: u64 = MIB;
const CHUNK: u64 = 512 << 10;
/// Where the numbered blocks that tests write begin, behind everything that is looked at.
const NUMBERED: u64 = DATA + 2 * MIB;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Disk {
    pub(crate) minor: u32,
    pub(crate) size: u64,
    pub(crate) by_id: String,
    pub(crate) bytes: Sparse,
    /// Every read fails.
    pub(crate) dead: bool,
    /// Pages of 4096 bytes that cannot be read.
    pub(crate) bad: Vec<u64>,
    /// How long the kernel waits for it, where it says so.
    pub(crate) wait_millis: Option<u64>,
    /// What its maker calls it.
    pub(crate) model: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Its devices.
    Stripe(Vec<String>),
    /// The durable leg, and the fast leg.
    Mirror(Option<Member>, Option<Member>),
    /// It does not run; its members.
    Inactive(Vec<String>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) state: MemberState,
    pub(crate) write_mostly: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemberState {
    InSync,
    Recovering,
    Faulty,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Array {
    pub(crate) minor: u32,
    pub(crate) kind: Kind,
    pub(crate) bytes: u64,
    pub(crate) knobs: BTreeMap<Knob, u64>,
    /// Both legs count as whole and may differ: md is about to copy the fast one over the other.
    pub(crate) resync: bool,
    /// Blocks that md itself knows to differ from a leg that is out.
    pub(crate) needed: Vec<u8>,
    pub(crate) broken: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct World {
    pub(crate) disks: BTreeMap<String, Disk>,
    pub(crate) arrays: BTreeMap<String, Array>,
    pub(crate) mounts: Vec<(String, PathBuf)>,
    /// What only the node sees mounted: an array or a disk, and where.
    pub(crate) node_mounts: Vec<(String, PathBuf)>,
    pub(crate) release: String,
    pub(crate) personalities: String,
    pub(crate) boot: u8,
    /// What its firmware calls the machine; 0 for one that has no name of its own.
    pub(crate) machine: u8,
    /// Counts up with each thing that is to be unlike any other.
    pub(crate) fresh: u8,
    /// Holders that are no arrays, by disk.
    pub(crate) holders: Vec<(String, String)>,
}

impl World {
    /// Two local disks and a network disk, all blank.
    pub(crate) fn blank() -> Self {
        let mut world = Self {
            disks: BTreeMap::new(),
            arrays: BTreeMap::new(),
            mounts: Vec::new(),
            node_mounts: Vec::new(),
            release: "6.1.0-50-amd64".to_owned(),
            personalities: "[raid0] [raid1]".to_owned(),
            boot: 1,
            machine: 1,
            fresh: 10,
            holders: Vec::new(),
        };
        world.plug(DURABLE, "data", 512 * MIB);
        world.plug("nvme0n1", "local-0", 256 * MIB);
        world.plug("nvme1n1", "local-1", 256 * MIB);
        world
    }

    pub(crate) fn plug(&mut self, name: &str, by_id: &str, size: u64) {
        self.fresh += 1;
        let disk = Disk {
            minor: u32::from(self.fresh),
            size,
            by_id: by_id.to_owned(),
            bytes: Sparse::default(),
            dead: false,
            bad: Vec::new(),
            wait_millis: None,
            model: None,
        };
        self.disks.insert(name.to_owned(), disk);
    }

    pub(crate) fn disk(&mut self, name: &str) -> &mut Disk {
        self.disks.get_mut(name).unwrap()
    }

    fn unique(&mut self) -> u8 {
        self.fresh += 1;
        self.fresh
    }

    /// Reads a disk, or a running stripe.
    fn peek(&self, name: &str, at: u64, len: u64) -> Vec<u8> {
        match self.arrays.get(name).map(|array| &array.kind) {
            Some(Kind::Stripe(disks)) => {
                let (disk, at) = striped(disks, at);
                self.disks[disk].bytes.read(at, len)
            }
            _ => self.disks[name].bytes.read(at, len),
        }
    }

    pub(crate) fn poke(&mut self, name: &str, at: u64, bytes: &[u8]) {
        let (disk, at) = match self.arrays.get(name).map(|array| &array.kind) {
            Some(Kind::Stripe(disks)) => {
                let (disk, at) = striped(disks, at);
                (disk.clone(), at)
            }
            _ => (name.to_owned(), at),
        };
        let disk = self.disk(&disk);
        disk.bytes.write(at, bytes);
        // A rewrite heals.
        let written = at.div_ceil(BLOCK)..(at + bytes.len() as u64) / BLOCK;
        disk.bad.retain(|page| !written.contains(page));
    }

    pub(crate) fn sb(&self, name: &str) -> Option<Sb> {
        Sb::decode(&self.peek(name, SB, BLOCK))
    }

    pub(crate) fn put_sb(&mut self, name: &str, sb: &Sb) {
        self.poke(name, SB, &sb.encode());
    }

    pub(crate) fn bits(&self, name: &str) -> Bits {
        Bits::decode(&self.peek(name, BITMAP, BLOCK))
    }

    pub(crate) fn put_bits(&mut self, name: &str, bits: &Bits) {
        self.poke(name, BITMAP, &bits.encode());
    }

    /// The mirror that runs: its name, its live legs.
    pub(crate) fn mirror(&self) -> Option<(String, Option<Member>, Option<Member>)> {
        self.arrays
            .iter()
            .find_map(|(name, array)| match &array.kind {
                Kind::Mirror(durable, fast) => Some((name.clone(), durable.clone(), fast.clone())),
                Kind::Stripe(_) | Kind::Inactive(_) => None,
            })
    }

    fn live(&self) -> Vec<Member> {
        let (_, durable, fast) = self.mirror().unwrap();
        let legs = durable.into_iter().chain(fast);
        legs.filter(|leg| leg.state != MemberState::Faulty)
            .collect()
    }

    /// Writes what the mirror's members are to each of them.
    fn sync_superblocks(&mut self, dirty: bool) {
        let live = self.live();
        let Some(first) = live.first() else { return };
        let base = self.sb(&first.name).unwrap();
        let roles = [DURABLE_SLOT, 1].map(|slot: u16| {
            let there = live
                .iter()
                .any(|leg| u16::from(leg.name != DURABLE) == slot);
            if there { slot } else { FAULTY }
        });
        for leg in &live {
            let mut sb = self.sb(&leg.name).unwrap_or_else(|| base.clone());
            sb.events = base.events + 1;
            sb.roles = roles.to_vec();
            sb.device = u16::from(leg.name != DURABLE);
            sb.dirty = dirty;
            sb.recovering = leg.state == MemberState::Recovering;
            self.put_sb(&leg.name, &sb);
        }
    }

    /// Whether md would start no mirror from this leg.
    fn has_lost_bitmap(&self, leg: &str) -> bool {
        let sb = self.sb(leg);
        sb.is_some_and(|sb| sb.bitmap) && self.disks[leg].bad.contains(&(BITMAP / BLOCK))
    }

    /// Writes a numbered block through the mounted filesystem.
    pub(crate) fn write(&mut self, block: u8, value: u8) {
        assert!(!self.mounts.is_empty(), "nothing is mounted");
        self.sync_superblocks(true);
        let live = self.live();
        for leg in &live {
            let mut bits = self.bits(&leg.name);
            bits.dirty.push(block);
            if live.len() == 2 {
                // A mirror that is never idle has had its bitmap say so by and by.
                bits.cleared = self.sb(&leg.name).unwrap().events;
            }
            self.put_bits(&leg.name, &bits);
            self.write_leg(&leg.name, block, value);
        }
        let (name, ..) = self.mirror().unwrap();
        if live.len() < 2 {
            self.arrays.get_mut(&name).unwrap().needed.push(block);
        }
    }

    /// Writes a numbered block to one leg only, as a power cut in the middle of a write leaves it.
    pub(crate) fn write_leg(&mut self, leg: &str, block: u8, value: u8) {
        self.poke(leg, NUMBERED + u64::from(block) * BLOCK, &[value; 32]);
    }

    pub(crate) fn block(&self, leg: &str, block: u8) -> u8 {
        self.peek(leg, NUMBERED + u64::from(block) * BLOCK, 1)[0]
    }

    /// Copies what is to be copied, and after some quiet clears the bitmap.
    pub(crate) fn settle(&mut self) {
        let Some((name, durable, fast)) = self.mirror() else {
            return;
        };
        if let (Some(durable), Some(fast)) = (&durable, &fast) {
            if self.arrays[&name].resync {
                for block in self.bits(&durable.name).dirty {
                    let value = self.block(&fast.name, block);
                    self.write_leg(&durable.name, block, value);
                }
                self.arrays.get_mut(&name).unwrap().resync = false;
            }
            if durable.state == MemberState::Recovering {
                for block in self.bits(&fast.name).dirty {
                    let value = self.block(&fast.name, block);
                    self.write_leg(&durable.name, block, value);
                }
                if let Kind::Mirror(own, _) = &mut self.arrays.get_mut(&name).unwrap().kind {
                    own.as_mut().unwrap().state = MemberState::InSync;
                }
            }
            if fast.state == MemberState::Recovering {
                for block in 0..=u8::MAX {
                    let value = self.block(&durable.name, block);
                    self.write_leg(&fast.name, block, value);
                }
                self.set_fast(&name, Some(MemberState::InSync));
            }
        }
        self.sync_superblocks(false);
        let live = self.live();
        if live.len() == 2 {
            for leg in live {
                let sb = self.sb(&leg.name).unwrap();
                let mut bits = self.bits(&leg.name);
                bits.dirty.clear();
                (bits.events, bits.cleared) = (sb.events, sb.events);
                self.put_bits(&leg.name, &bits);
            }
        }
    }

    /// Local disks drop out under the fast leg that is made of them, and md has noticed.
    pub(crate) fn pull(&mut self, names: &[&str]) -> Vec<(String, Disk)> {
        let (name, _, fast) = self.mirror().unwrap();
        if let Some(fast) = fast {
            self.set_fast(&name, Some(MemberState::Faulty));
            self.arrays.get_mut(&fast.name).unwrap().broken = true;
            self.sync_superblocks(true);
        }
        let disk = |name: &&str| ((*name).to_owned(), self.disks.remove(*name).unwrap());
        names.iter().map(disk).collect()
    }

    /// Disks are there again, or for the first time.
    pub(crate) fn put_in(&mut self, disks: Vec<(String, Disk)>) {
        self.disks.extend(disks);
    }

    /// The fast leg that is being filled has got past all that was written: md needs no bits for it any more, though it is not
    /// whole yet.
    pub(crate) fn fill_in_part(&mut self) {
        let (name, _, fast) = self.mirror().unwrap();
        assert_eq!(fast.unwrap().state, MemberState::Recovering);
        for leg in self.live() {
            let mut bits = self.bits(&leg.name);
            bits.dirty.clear();
            self.put_bits(&leg.name, &bits);
        }
        self.arrays.get_mut(&name).unwrap().needed.clear();
    }

    fn set_fast(&mut self, mirror: &str, state: Option<MemberState>) {
        let array = self.arrays.get_mut(mirror).unwrap();
        if let Kind::Mirror(_, fast) = &mut array.kind {
            match state {
                Some(state) => fast.as_mut().unwrap().state = state,
                None => *fast = None,
            }
        }
    }

    /// The power goes: everything but the disks is forgotten.
    pub(crate) fn power_cut(&mut self) {
        self.arrays.clear();
        self.mounts.clear();
        self.node_mounts.clear();
        self.boot += 1;
    }

    /// The network disk stops answering while the mirror runs.
    pub(crate) fn lose_durable(&mut self) {
        let (name, ..) = self.mirror().unwrap();
        if let Kind::Mirror(durable, _) = &mut self.arrays.get_mut(&name).unwrap().kind {
            durable.as_mut().unwrap().state = MemberState::Faulty;
        }
        self.sync_superblocks(true);
    }

    /// The durable leg's header says that it was ended in order, as the agent writes it.
    pub(crate) fn mark_clean(&mut self) {
        let region = DATA - 8192;
        let bytes = self.peek(DURABLE, region, 8192);
        let superdisk::lineage::Slots::Header(header) = superdisk::lineage::read(&bytes) else {
            panic!("no header");
        };
        let clean = header.next_in(superdisk::lineage::State::Clean);
        self.poke(
            DURABLE,
            region + 4096 * clean.slot() as u64,
            &clean.encode(),
        );
    }

    /// Half a minute after a boot without the other leg, some hosts start what there is.
    pub(crate) fn host_starts_durable(&mut self) {
        let own = self.sb(DURABLE).unwrap();
        let leg = Member {
            name: DURABLE.to_owned(),
            state: MemberState::InSync,
            write_mostly: true,
        };
        self.start("md126", Kind::Mirror(Some(leg), None), own.size * 512);
        self.sync_superblocks(false);
    }

    /// Stops everything in order.
    pub(crate) fn stop(&mut self) {
        self.mounts.clear();
        if self.mirror().is_some() {
            self.sync_superblocks(false);
        }
        self.arrays.clear();
    }

    fn start(&mut self, name: &str, kind: Kind, bytes: u64) {
        let knobs = match &kind {
            Kind::Mirror(..) => [
                (Knob::MaxReadErrors, 20),
                (Knob::SyncSpeedMin, 1000),
                (Knob::SyncSpeedMax, 200_000),
                (Knob::Backlog, 0),
                (Knob::Rotational, 1),
                (Knob::StableWrites, 0),
            ]
            .into(),
            Kind::Stripe(_) | Kind::Inactive(_) => BTreeMap::new(),
        };
        let array = Array {
            minor: name[2..].parse().unwrap(),
            kind,
            bytes,
            knobs,
            resync: false,
            needed: Vec::new(),
            broken: false,
        };
        self.arrays.insert(name.to_owned(), array);
    }

    /// What md remembers of a leg's bits when it starts a mirror: nothing, where only one leg is there and the
    /// bitmap says that it was cleared at this very count of events.
    fn known_to_md(&self, leg: &str, both: bool) -> Vec<u8> {
        let bits = self.bits(leg);
        if !both && bits.cleared == self.sb(leg).unwrap().events {
            Vec::new()
        } else {
            bits.dirty
        }
    }

    /// The host's udev starts everything it finds, both legs at once.
    pub(crate) fn host_assembles(&mut self) {
        let locals: Vec<String> = ["nvme0n1", "nvme1n1"].map(str::to_owned).to_vec();
        if locals.iter().all(|disk| {
            // One whose superblock cannot be read is none to the host either.
            self.disks
                .get(disk)
                .is_some_and(|one| !one.dead && !one.bad.contains(&(SB / BLOCK)))
                && self.sb(disk).is_some_and(|sb| sb.level == 0)
        }) && self.sb(&locals[0]).map(|sb| sb.array) == self.sb(&locals[1]).map(|sb| sb.array)
        {
            self.start("md127", Kind::Stripe(locals.clone()), stripe_bytes(2));
        }
        let Some(own) = self.sb(DURABLE) else { return };
        if self.has_lost_bitmap(DURABLE) {
            return;
        }
        let fast = self
            .arrays
            .contains_key("md127")
            .then(|| self.sb("md127"))
            .flatten();
        let leg = |name: &str| Member {
            name: name.to_owned(),
            state: MemberState::InSync,
            write_mostly: name == DURABLE,
        };
        let (bytes, dirty) = (own.size * 512, own.dirty);
        let joins = fast.filter(|fast| fast.array == own.array && fast.events == own.events);
        let whole = joins.as_ref().is_some_and(|fast| !fast.recovering);
        // A leg that was being rebuilt is rebuilt on: that goes in the right direction by itself.
        let fast = joins.map(|fast| Member {
            state: match fast.recovering {
                true => MemberState::Recovering,
                false => MemberState::InSync,
            },
            ..leg("md127")
        });
        let needed = self.known_to_md(DURABLE, fast.is_some());
        self.start("md126", Kind::Mirror(Some(leg(DURABLE)), fast), bytes);
        self.arrays.get_mut("md126").unwrap().needed = needed;
        self.arrays.get_mut("md126").unwrap().resync = whole && dirty;
    }
}

const DURABLE_SLOT: u16 = 0;

fn striped(disks: &[String], at: u64) -> (&String, u64) {
    let chunk = at / CHUNK;
    let count = disks.len() as u64;
    (
        &disks[(chunk % count) as usize],
        DATA + chunk / count * CHUNK + at % CHUNK,
    )
}

fn stripe_bytes(count: u64) -> u64 {
    count * (256 * MIB - DATA)
}
