//! Effects of md and mkfs commands.

use superdisk::{
    action::{Action, Leg, Update},
    lineage::SLOT_BYTES,
    spec::FilesystemKind,
};

use super::{BITMAP, DATA, Kind, Member, MemberState, SB, World, stripe_bytes};
use crate::{
    bytes::{BLOCK, Bits, FAULTY, Sb},
    world::DURABLE,
};

impl World {
    /// Does one action as md would; the error is what mdadm says.
    pub(crate) fn act(&mut self, action: &Action) -> Result<(), String> {
        match action {
            Action::Stop { array, because: _ } => {
                let held = self.arrays.values().any(
                    |one| matches!(&one.kind, Kind::Mirror(_, Some(fast)) if fast.name == *array),
                );
                if held || self.mounts.iter().any(|(name, _)| name == array) {
                    return Err("busy".to_owned());
                }
                if matches!(self.arrays[array].kind, Kind::Mirror(..)) {
                    self.sync_superblocks(false);
                }
                self.arrays.remove(array);
            }
            Action::Fail {
                array,
                member: _,
                because: _,
            } => {
                self.set_fast(array, Some(MemberState::Faulty));
                let one = self.arrays.get_mut(array).unwrap();
                one.resync = false;
                self.sync_superblocks(false);
            }
            Action::Remove { array, member: _ } => self.set_fast(array, None),
            Action::CreateStripe {
                array,
                name,
                devices,
            } => {
                let names: Vec<String> = devices
                    .iter()
                    .map(|one| one.device().name.clone())
                    .collect();
                self.create_stripe(array, name, &names);
            }
            Action::StartStripe { array, devices } => {
                let names: Vec<String> = devices.iter().map(|one| one.name.clone()).collect();
                let bytes = stripe_bytes(names.len() as u64);
                self.start(array, Kind::Stripe(names), bytes);
            }
            Action::ForgetLineage { stripe, region } => {
                self.poke(stripe.array(), *region, &[]);
                self.poke(stripe.array(), region + 4096, &[]);
            }
            Action::ForgetMirror(stripe) => self.poke(stripe.array(), SB, &[]),
            Action::CreateMirror {
                durable,
                array,
                name,
                kib,
            } => {
                let durable = durable.device().name.clone();
                self.create_mirror(array, name, &durable, *kib);
            }
            Action::StartMirror {
                durable,
                array,
                update,
            } => {
                return self.start_mirror(&durable.name, array, update);
            }
            Action::StartMirrorFromFast {
                stripe,
                array,
                durable: _,
            } => {
                let leg = Member {
                    name: stripe.clone(),
                    state: MemberState::InSync,
                    write_mostly: false,
                };
                let bytes = self.sb(stripe).unwrap().size * 512;
                self.start(array, Kind::Mirror(None, Some(leg)), bytes);
                self.sync_superblocks(false);
            }
            Action::ReAddDurable { array, durable } => self.rejoin(array, &durable.device().name),
            Action::Mark { array, chunks } => {
                let blocks = chunks.iter().flat_map(|&(first, last)| first..=last);
                let blocks: Vec<u8> = blocks.map(|block| block as u8).collect();
                for leg in self.live() {
                    let mut bits = self.bits(&leg.name);
                    bits.dirty.extend(&blocks);
                    self.put_bits(&leg.name, &bits);
                }
                let array = self.arrays.get_mut(array).unwrap();
                array.needed.extend(blocks);
                array.resync = true;
            }
            Action::Watch { .. } | Action::ReadThrough { .. } => {}
            Action::LimitWait { device, millis } => {
                self.disk(device).wait_millis = Some(*millis);
            }
            Action::SettleMarks { array } => self.arrays.get_mut(array).unwrap().resync = false,
            Action::ReAdd { array, member } => return self.join(array, member, false),
            Action::Add { array, member } => return self.join(array, member, true),
            Action::WriteMostly { array, member, on } => {
                if let Kind::Mirror(durable, fast) = &mut self.arrays.get_mut(array).unwrap().kind {
                    let mut legs = durable.iter_mut().chain(fast);
                    legs.find(|leg| leg.name == *member).unwrap().write_mostly = *on;
                }
            }
            Action::WriteLineage {
                leg,
                region,
                header,
            } => {
                let name = match leg {
                    Leg::Durable(identity) => identity.name.clone(),
                    Leg::Fast { array, stripe: _ } => array.clone(),
                };
                let at = region + (header.slot() * SLOT_BYTES) as u64;
                self.poke(&name, at, &header.encode());
            }
            Action::Format {
                mirror: _, kind, ..
            } => self.format(*kind),
            Action::Set { array, knob, value } => {
                self.arrays
                    .get_mut(array)
                    .unwrap()
                    .knobs
                    .insert(*knob, *value);
            }
            Action::AddBitmap { array: _ } => {
                for leg in self.live() {
                    let mut sb = self.sb(&leg.name).unwrap();
                    sb.bitmap = true;
                    self.put_sb(&leg.name, &sb);
                    let bits = Bits {
                        array: sb.array,
                        events: sb.events,
                        cleared: sb.events,
                        ..Bits::default()
                    };
                    self.put_bits(&leg.name, &bits);
                    // mdadm writes all of it.
                    if let Some(disk) = self.disks.get_mut(&leg.name) {
                        disk.bad.retain(|page| *page != BITMAP / BLOCK);
                    }
                }
            }
            Action::GrowMirror { array, kib } => {
                self.arrays.get_mut(array).unwrap().bytes = kib << 10;
                for leg in self.live() {
                    let mut sb = self.sb(&leg.name).unwrap();
                    sb.size = kib << 1;
                    self.put_sb(&leg.name, &sb);
                }
            }
            Action::GrowFilesystem { kind, .. } => self.format(*kind),
            Action::Mount { array, at, kind: _ } => self.mounts.push((array.clone(), at.clone())),
        }
        Ok(())
    }

    fn create_stripe(&mut self, array: &str, name: &str, disks: &[String]) {
        let uuid = self.unique();
        for (index, disk) in disks.iter().enumerate() {
            let sb = Sb {
                array: uuid,
                name: format!("any:{name}"),
                level: 0,
                size: 0,
                raid_disks: disks.len() as u32,
                data_offset: DATA / 512,
                data_size: (self.disks[disk].size - DATA) / 512,
                recovering: false,
                device: index as u16,
                write_mostly: false,
                bad_block_log: 0,
                bitmap: false,
                events: 0,
                dirty: false,
                roles: (0..disks.len() as u16).collect(),
            };
            self.put_sb(disk, &sb);
        }
        let bytes = stripe_bytes(disks.len() as u64);
        self.start(array, Kind::Stripe(disks.to_vec()), bytes);
    }

    fn create_mirror(&mut self, array: &str, name: &str, durable: &str, kib: u64) {
        let uuid = self.unique();
        let sb = Sb {
            array: uuid,
            name: format!("any:{name}"),
            level: 1,
            size: kib * 2,
            raid_disks: 2,
            data_offset: DATA / 512,
            data_size: (self.disks[durable].size - DATA) / 512,
            recovering: false,
            device: 0,
            write_mostly: true,
            bad_block_log: 8,
            bitmap: true,
            events: 1,
            dirty: false,
            roles: vec![0, FAULTY],
        };
        self.put_sb(durable, &sb);
        let bits = Bits {
            array: uuid,
            ..Bits::default()
        };
        self.put_bits(durable, &bits);
        let leg = Member {
            name: durable.to_owned(),
            state: MemberState::InSync,
            write_mostly: true,
        };
        self.start(array, Kind::Mirror(Some(leg), None), kib << 10);
    }

    fn start_mirror(&mut self, durable: &str, array: &str, update: &Update) -> Result<(), String> {
        let mut sb = self.sb(durable).ok_or("no superblock")?;
        // mdadm looks for that unless it gives the array another UUID.
        let twin = |one: &Member| {
            one.name != durable
                && self
                    .sb(&one.name)
                    .is_some_and(|other| other.array == sb.array)
        };
        let runs = self.arrays.values().any(
            |one| matches!(&one.kind, Kind::Mirror(legs, _) if legs.as_ref().is_some_and(twin)),
        );
        if runs && !matches!(update, Update::Array(_)) {
            return Err("Found some drive for an array that is already active".to_owned());
        }
        if self.has_lost_bitmap(durable) && *update != Update::NoBitmap {
            return Err("its bitmap cannot be read".to_owned());
        }
        match update {
            Update::Nothing => {}
            Update::NoBitmap => sb.bitmap = false,
            Update::NoBadBlockLog => sb.bad_block_log = 0,
            Update::Name(name) => sb.name = format!("any:{name}"),
            Update::Array(uuid) => {
                sb.array = uuid.0[0];
                let bits = Bits {
                    array: sb.array,
                    ..self.bits(durable)
                };
                self.put_bits(durable, &bits);
            }
        }
        self.put_sb(durable, &sb);
        let leg = Member {
            name: durable.to_owned(),
            state: MemberState::InSync,
            write_mostly: sb.write_mostly,
        };
        let needed = self.known_to_md(durable, false);
        self.start(array, Kind::Mirror(Some(leg), None), sb.size * 512);
        self.arrays.get_mut(array).unwrap().needed = needed;
        self.sync_superblocks(false);
        Ok(())
    }

    /// `--add` re-adds silently when it can, whatever the member holds: that is what must not be relied on.
    fn join(&mut self, array: &str, member: &str, add: bool) -> Result<(), String> {
        let own = self.sb(DURABLE).unwrap();
        let bits = self.bits(DURABLE);
        let found = self.sb(member);
        let related =
            found.is_some_and(|found| found.array == own.array && found.events >= bits.cleared);
        let related = related && own.bitmap;
        if !related && !add {
            return Err("--re-add is not possible".to_owned());
        }
        let state = if related {
            for block in std::mem::take(&mut self.arrays.get_mut(array).unwrap().needed) {
                let value = self.block(DURABLE, block);
                self.write_leg(member, block, value);
            }
            MemberState::InSync
        } else {
            MemberState::Recovering
        };
        let sb = Sb {
            device: 1,
            write_mostly: false,
            bad_block_log: 8,
            recovering: !related,
            ..own
        };
        self.put_sb(member, &sb);
        self.put_bits(member, &bits);
        let leg = Member {
            name: member.to_owned(),
            state,
            write_mostly: false,
        };
        if let Kind::Mirror(_, fast) = &mut self.arrays.get_mut(array).unwrap().kind {
            *fast = Some(leg);
        }
        self.sync_superblocks(false);
        Ok(())
    }

    /// The durable leg is about to be given what the fast leg's bitmap knows.
    fn rejoin(&mut self, array: &str, durable: &str) {
        let (_, _, fast) = self.mirror().unwrap();
        let fast = fast.unwrap().name;
        let bits = self.bits(&fast);
        self.put_bits(durable, &bits);
        let (own, other) = (self.sb(durable).unwrap(), self.sb(&fast).unwrap());
        let sb = Sb {
            events: other.events,
            ..own
        };
        self.put_sb(durable, &sb);
        let leg = Member {
            name: durable.to_owned(),
            state: MemberState::Recovering,
            write_mostly: true,
        };
        if let Kind::Mirror(own, _) = &mut self.arrays.get_mut(array).unwrap().kind {
            *own = Some(leg);
        }
        self.sync_superblocks(false);
    }

    /// What mkfs, or growing, leaves at the beginning of the data.
    fn format(&mut self, kind: FilesystemKind) {
        let (name, ..) = self.mirror().unwrap();
        let blocks = self.arrays[&name].bytes / BLOCK;
        let mut bytes = vec![0; 4096];
        match kind {
            FilesystemKind::Xfs => {
                bytes[..4].copy_from_slice(b"XFSB");
                bytes[4..8].copy_from_slice(&4096_u32.to_be_bytes());
                bytes[8..16].copy_from_slice(&blocks.to_be_bytes());
            }
            FilesystemKind::Ext4 => {
                bytes[1024 + 4..1024 + 8].copy_from_slice(&(blocks as u32).to_le_bytes());
                bytes[1024 + 24] = 2;
                bytes[1024 + 56..1024 + 58].copy_from_slice(&[0x53, 0xef]);
            }
        }
        for leg in self.live() {
            self.poke(&leg.name, DATA, &bytes);
        }
    }
}
