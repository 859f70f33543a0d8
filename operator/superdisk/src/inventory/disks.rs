//! Reads what is on devices: regions of bytes in, [`Content`] out. Never writes.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
};

use super::{
    Content, Data,
    patience::{PATIENCE, read_within},
};
use crate::{
    lineage::{self, Slots},
    model::Seen,
    superblock::{self, SECTOR, Superblock},
    sysfs::{FileSystem, NodeKind, Nodes},
};

/// How much is read of the beginning and of the end of a device, or of its data.
pub(super) const LOOK_BYTES: u64 = 1 << 20;
/// Ranges of chunks that are told apart: as many as md takes in one write of a page.
const MOST_RANGES: usize = 150;
/// What O_DIRECT wants offsets, lengths and memory to be multiples of, on devices of 512 and of 4096 bytes.
const ALIGN: u64 = 4096;

/// Reads device nodes.
pub trait Blocks: Nodes + std::fmt::Debug + Sync {
    /// `len` bytes of the device at `path`, from `at` on; fewer when the device ends before.
    fn read(&self, path: &Path, at: u64, len: u64) -> io::Result<Vec<u8>>;
}

/// The devices of this system. Reads go past the page cache: under a running array it knows old bytes. One that does
/// not answer for half a minute cannot be read.
#[derive(Clone, Copy, Debug)]
pub struct Devices;

impl Nodes for Devices {
    fn kind(&self, path: &Path) -> io::Result<NodeKind> {
        FileSystem.kind(path)
    }
}

impl Blocks for Devices {
    fn read(&self, path: &Path, at: u64, len: u64) -> io::Result<Vec<u8>> {
        let node = path.to_owned();
        read_within(PATIENCE, path, move || read_direct(&node, at, len))
    }
}

pub(crate) fn read_direct(path: &Path, at: u64, len: u64) -> io::Result<Vec<u8>> {
    let direct = rustix::fs::OFlags::DIRECT.bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(direct)
        .open(path)?;
    let start = at / ALIGN * ALIGN;
    let skip = to_usize(at - start);
    let length = to_usize((at + len).next_multiple_of(ALIGN) - start);
    // One block more than is read, to begin at an aligned address.
    let mut memory = vec![0; length + to_usize(ALIGN)];
    let shift = memory.as_ptr().align_offset(to_usize(ALIGN));
    let aligned = &mut memory[shift..shift + length];
    let got = read_full(&file, aligned, start)?;
    let end = got.min(skip + to_usize(len));
    Ok(aligned[skip.min(end)..end].to_vec())
}

fn read_full(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], at + done as u64) {
            Ok(0) => break,
            Ok(more) => done += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if !done.is_multiple_of(512) {
            break;
        }
    }
    Ok(done)
}

fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Something that can be read from: a device, or devices seen as the stripe they hold.
pub(super) trait Source {
    fn read(&self, at: u64, len: u64) -> io::Result<Vec<u8>>;
    fn bytes(&self) -> u64;
}

/// One device.
pub(super) struct Whole<'a> {
    pub(super) blocks: &'a dyn Blocks,
    pub(super) path: &'a Path,
    pub(super) bytes: u64,
}

impl Source for Whole<'_> {
    fn read(&self, at: u64, len: u64) -> io::Result<Vec<u8>> {
        self.blocks.read(self.path, at, len)
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// The devices of a stripe, by slot, with where their data begins and ends; `None` for one that is not there. What
/// lies on the others can be read all the same.
pub(super) struct Striped<'a> {
    pub(super) chunk: u64,
    pub(super) members: Vec<Option<(Whole<'a>, u64, u64)>>,
}

impl Source for Striped<'_> {
    fn read(&self, at: u64, len: u64) -> io::Result<Vec<u8>> {
        let count = self.members.len() as u64;
        let end = (at + len).min(self.bytes());
        let mut bytes = Vec::new();
        let mut at = at;
        while at < end {
            let chunk = at / self.chunk;
            let inside = at % self.chunk;
            let Some((device, data, _)) = &self.members[to_usize(chunk % count)] else {
                return Err(io::Error::other("one of its devices is missing"));
            };
            let want = (self.chunk - inside).min(end - at);
            let part = device.read(data + chunk / count * self.chunk + inside, want)?;
            if part.len() as u64 != want {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            at += want;
            bytes.extend(part);
        }
        Ok(bytes)
    }

    /// What all devices have alike: larger ones have more behind it, which is laid out in another way.
    fn bytes(&self) -> u64 {
        let there = self.members.iter().flatten();
        let smallest = there.map(|(_, _, size)| size / self.chunk);
        smallest.min().unwrap_or(0) * self.chunk * self.members.len() as u64
    }
}

/// What pages that cannot be read mean while it is asked whether anything is on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gaps {
    /// That it cannot be said.
    Unknown,
    /// Nothing, as long as they are few and the first page is not among them: local disks have bad sectors, and any use
    /// of a disk leaves traces in more than one of these pages.
    Ignored,
}

/// Pages that may be unreadable at each end of a local disk.
const MOST_GAPS: usize = 16;

/// Reads all that a plan may depend on.
pub(super) fn content(source: &dyn Source, gaps: Gaps) -> Seen<Content> {
    match read_content(source, gaps) {
        Ok(content) => Seen::Present(content),
        Err(error) => Seen::Unknown(error.to_string()),
    }
}

/// The lineage header that a device carries, as the container sees it that asks; nothing else of it is looked at.
#[must_use]
pub fn header_on(blocks: &dyn Blocks, path: &Path) -> Seen<lineage::Header> {
    let bytes = u64::MAX;
    let source = Whole {
        blocks,
        path,
        bytes,
    };
    match source.read(superblock::OFFSET, superblock::BYTES as u64) {
        Ok(page) => match superblock::parse(&page) {
            Ok(Some(found)) => lineage_of(&source, &found),
            Ok(None) => Seen::Absent,
            Err(damaged) if !page.is_empty() => Seen::Unknown(damaged.to_string()),
            Err(_) => Seen::Absent,
        },
        Err(error) => Seen::Unknown(error.to_string()),
    }
}

/// Reads the superblock alone first: where there is one, an error in unused bytes does not matter.
fn read_content(source: &dyn Source, gaps: Gaps) -> io::Result<Content> {
    let page = source.read(superblock::OFFSET, superblock::BYTES as u64)?;
    let found = superblock::parse(&page);
    let blank = Content {
        superblock: Seen::Absent,
        bitmap: Seen::Absent,
        marked: Seen::Absent,
        lineage: Seen::Absent,
        foreign: None,
        data: Seen::Absent,
    };
    match found {
        Ok(Some(found)) => {
            let bitmap = bitmap(source, &found);
            Ok(Content {
                marked: marked(source, &found, &bitmap),
                bitmap,
                lineage: lineage_of(source, &found),
                data: data(source, &found),
                superblock: Seen::Present(found),
                ..blank
            })
        }
        Err(damaged) if !page.is_empty() => Ok(Content {
            superblock: Seen::Unknown(damaged.to_string()),
            ..blank
        }),
        Ok(None) | Err(_) => {
            let head = look(source, 0, LOOK_BYTES, gaps)?;
            let from = source.bytes().saturating_sub(LOOK_BYTES) / ALIGN * ALIGN;
            let tail = look(source, from, source.bytes() - from, gaps)?;
            let foreign = superblock::foreign(&head, &tail);
            Ok(Content { foreign, ..blank })
        }
    }
}

/// Reads an end of a device, page by page where it cannot be read at once.
fn look(source: &dyn Source, from: u64, len: u64, gaps: Gaps) -> io::Result<Vec<u8>> {
    let error = match source.read(from, len) {
        Ok(bytes) => return Ok(bytes),
        Err(error) if gaps == Gaps::Unknown => return Err(error),
        Err(error) => error,
    };
    let (mut bytes, mut bad) = (Vec::new(), 0);
    for at in (from..from + len).step_by(to_usize(ALIGN)) {
        let want = ALIGN.min(from + len - at);
        match source.read(at, want) {
            Ok(page) => bytes.extend(page),
            Err(_) if at > 0 && bad < MOST_GAPS => {
                bad += 1;
                bytes.resize(bytes.len() + to_usize(want), 0);
            }
            Err(_) => return Err(error),
        }
    }
    Ok(bytes)
}

fn bitmap(source: &dyn Source, superblock: &Superblock) -> Seen<superblock::Bitmap> {
    let Some(at) = superblock.bitmap_at() else {
        return Seen::Absent;
    };
    match source.read(at, superblock::BITMAP_BYTES as u64) {
        Ok(bytes) => superblock::parse_bitmap(&bytes).map_or(Seen::Absent, Seen::Present),
        Err(error) => Seen::Unknown(error.to_string()),
    }
}

fn marked(
    source: &dyn Source,
    superblock: &Superblock,
    bitmap: &Seen<superblock::Bitmap>,
) -> Seen<Vec<(u64, u64)>> {
    let (Some(at), Seen::Present(bitmap)) = (superblock.bitmap_at(), bitmap) else {
        return Seen::Absent;
    };
    let bytes = bitmap.chunks.div_ceil(8);
    if bytes > LOOK_BYTES {
        return Seen::Unknown(format!("its bitmap says it has {} chunks", bitmap.chunks));
    }
    match source.read(at + superblock::BITMAP_BYTES as u64, bytes) {
        Ok(bits) if bits.len() as u64 == bytes => {
            Seen::Present(superblock::marked(&bits, bitmap.chunks, MOST_RANGES))
        }
        Ok(_) => Seen::Unknown("its bitmap is cut off".to_owned()),
        Err(error) => Seen::Unknown(error.to_string()),
    }
}

fn lineage_of(source: &dyn Source, superblock: &Superblock) -> Seen<lineage::Header> {
    let Some(at) = lineage::region_at(superblock) else {
        return Seen::Absent;
    };
    // Slot by slot: with one bad sector the other header still speaks, one beat behind at most.
    let (mut region, mut failed) = (Vec::new(), None);
    for slot in 0..2 {
        let slot_at = at + slot * lineage::SLOT_BYTES as u64;
        match source.read(slot_at, lineage::SLOT_BYTES as u64) {
            Ok(bytes) => region.extend(bytes),
            Err(error) => failed = Some(error.to_string()),
        }
        region.resize((to_usize(slot) + 1) * lineage::SLOT_BYTES, 0);
    }
    match (lineage::read(&region), failed) {
        (Slots::Header(header), _) => Seen::Present(header),
        (Slots::Empty | Slots::Damaged, Some(error)) => Seen::Unknown(error),
        (Slots::Empty, None) => Seen::Absent,
        (Slots::Damaged, None) => Seen::Unknown("both copies are damaged".to_owned()),
    }
}

fn data(source: &dyn Source, superblock: &Superblock) -> Seen<Data> {
    let start = superblock.data_offset.saturating_mul(SECTOR);
    let size = superblock.size.saturating_mul(SECTOR);
    let end = start.saturating_add(size).min(source.bytes());
    if superblock.level != 1 || start >= end {
        return Seen::Absent;
    }
    let read = || -> io::Result<Data> {
        // Its own superblock alone first: the rest is the filesystem's to read.
        let first = source.read(start, ALIGN.min(end - start))?;
        if let Some(filesystem) = superblock::filesystem(&first) {
            return Ok(Data::Filesystem(filesystem));
        }
        let head = source.read(start, LOOK_BYTES.min(end - start))?;
        let from = end.saturating_sub(LOOK_BYTES).max(start);
        let tail = source.read(from, end - from)?;
        Ok(superblock::foreign(&head, &tail).map_or(Data::Blank, Data::Other))
    };
    read().map_or_else(|error| Seen::Unknown(error.to_string()), Seen::Present)
}
