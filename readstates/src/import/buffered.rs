//! The bytes of a file or of standard input, a part at a time, with the place and the line that they are at.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};

use aws_lc_rs::digest;
use serde::{Deserialize, Serialize};

/// Bytes that are read at once.
const AT_ONCE: usize = 256 << 10;
/// Bytes by which an input is known again.
const KNOWN_BY: usize = 4096;
/// What some programs write before UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Up to 4 KiB of an input, from its beginning or before a place: enough to notice that a checkpoint is of another input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Excerpt {
    bytes: u64,
    sha256: String,
}

impl Excerpt {
    fn of(bytes: &[u8]) -> Self {
        let hash = digest::digest(&digest::SHA256, bytes);
        let digits = hash.as_ref().iter();
        Self {
            bytes: bytes.len() as u64,
            sha256: digits.map(|byte| format!("{byte:02x}")).collect(),
        }
    }
}

/// Bytes on their way in.
pub(super) struct Buffered {
    input: Box<dyn Input>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// The last bytes before `start`.
    behind: Vec<u8>,
    /// Bytes and line ends before `start`.
    pub(super) offset: u64,
    pub(super) lines: u64,
}

trait Input: Read + Send {
    /// Goes to a place, if it can.
    fn go_to(&mut self, offset: u64) -> io::Result<bool>;
}

impl Input for File {
    fn go_to(&mut self, offset: u64) -> io::Result<bool> {
        // A pipe with a name is a file, too, and has one direction.
        if !self.metadata()?.is_file() {
            return Ok(false);
        }
        if self.metadata()?.len() < offset {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.seek(SeekFrom::Start(offset))?;
        Ok(true)
    }
}

/// What cannot go anywhere.
struct Straight<R>(R);

impl<R: Read> Read for Straight<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl<R: Read + Send> Input for Straight<R> {
    fn go_to(&mut self, _: u64) -> io::Result<bool> {
        Ok(false)
    }
}

impl Buffered {
    pub(super) fn of_file(file: &Path) -> io::Result<Self> {
        let file = File::open(file)?;
        if file.metadata()?.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Ok(Self::on(Box::new(file)))
    }

    pub(super) fn of_stdin() -> Self {
        Self::on(Box::new(Straight(io::stdin())))
    }

    /// Bytes that are there.
    #[cfg(test)]
    pub(super) fn of_bytes(bytes: &[u8]) -> Self {
        Self::on(Box::new(Straight(io::Cursor::new(bytes.to_vec()))))
    }

    fn on(input: Box<dyn Input>) -> Self {
        Self {
            input,
            buffer: vec![0; AT_ONCE],
            start: 0,
            end: 0,
            behind: Vec::new(),
            offset: 0,
            lines: 0,
        }
    }

    /// Looks at the first bytes, as many as `known` says or as there are, and steps over a byte order mark. To be called
    /// first.
    pub(super) fn beginning(&mut self, known: Option<&Excerpt>) -> io::Result<Excerpt> {
        let wanted = known.map_or(KNOWN_BY, |known| {
            usize::try_from(known.bytes)
                .unwrap_or(KNOWN_BY)
                .min(KNOWN_BY)
        });
        while self.end < wanted {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => break,
                Ok(more) => self.end += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let beginning = Excerpt::of(&self.buffer[..self.end.min(wanted)]);
        if self.data().starts_with(BYTE_ORDER_MARK) {
            self.consume(BYTE_ORDER_MARK.len());
        }
        Ok(beginning)
    }

    /// What is there and not consumed.
    pub(super) fn data(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Reads more once nothing is left; false at the end.
    pub(super) fn fill(&mut self) -> io::Result<bool> {
        while self.start == self.end {
            match self.input.read(&mut self.buffer) {
                Ok(0) => return Ok(false),
                Ok(more) => (self.start, self.end) = (0, more),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    pub(super) fn consume(&mut self, bytes: usize) {
        let taken = &self.buffer[self.start..self.start + bytes];
        self.lines += memchr::memchr_iter(b'\n', taken).count() as u64;
        self.behind
            .extend_from_slice(&taken[taken.len().saturating_sub(KNOWN_BY)..]);
        // Seldom, so that it is cheap.
        if self.behind.len() > 16 * KNOWN_BY {
            self.behind.drain(..self.behind.len() - KNOWN_BY);
        }
        self.offset += bytes as u64;
        self.start += bytes;
    }

    /// What is before the place that this is at.
    pub(super) fn before(&self) -> Excerpt {
        Excerpt::of(&self.behind[self.behind.len().saturating_sub(KNOWN_BY)..])
    }

    /// Goes on to a place, which is at this many line ends. False: something else is before it than `known`.
    pub(super) fn skip_to(
        &mut self,
        offset: u64,
        lines: u64,
        known: Option<&Excerpt>,
    ) -> io::Result<bool> {
        let looked_at = known.map_or(0, |known| known.bytes);
        let place = offset.saturating_sub(looked_at);
        if self.offset < place && self.input.go_to(place)? {
            (self.start, self.end, self.offset) = (0, 0, place);
            self.behind.clear();
        }
        while self.offset < offset {
            if !self.fill()? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let left = usize::try_from(offset - self.offset).unwrap_or(usize::MAX);
            self.consume(left.min(self.data().len()));
        }
        self.lines = lines;
        Ok(known.is_none_or(|known| {
            let bytes = usize::try_from(known.bytes).unwrap_or(usize::MAX);
            let place = self.behind.len().checked_sub(bytes);
            place.is_some_and(|place| Excerpt::of(&self.behind[place..]) == *known)
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn all(buffered: &mut Buffered) -> Vec<u8> {
        let mut bytes = Vec::new();
        while buffered.fill().unwrap() {
            bytes.extend_from_slice(buffered.data());
            buffered.consume(buffered.data().len());
        }
        bytes
    }

    #[test]
    fn a_place_is_found_again_in_a_file_and_in_a_stream() {
        let text = "line\n".repeat(200_000);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows");
        fs::write(&path, &text).unwrap();
        for mut buffered in [
            Buffered::of_file(&path).unwrap(),
            Buffered::of_bytes(text.as_bytes()),
        ] {
            let beginning = buffered.beginning(None).unwrap();
            assert_eq!(beginning.bytes, 4096);
            assert_eq!(buffered.offset, 0);
            assert!(buffered.skip_to(700_000, 140_000, None).unwrap());
            assert_eq!(all(&mut buffered).len(), 300_000);
            assert_eq!((buffered.offset, buffered.lines), (1_000_000, 200_000));
        }
        for mut buffered in [
            Buffered::of_file(&path).unwrap(),
            Buffered::of_bytes(text.as_bytes()),
        ] {
            buffered.beginning(None).unwrap();
            let error = buffered.skip_to(1_000_001, 1, None).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn what_is_before_a_place_is_known_again_in_a_file_and_in_a_stream() {
        let text: String = (0..100_000).map(|row| format!("{row}\n")).collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows");
        let known = |place: u64| {
            let mut buffered = Buffered::of_bytes(text.as_bytes());
            buffered.beginning(None).unwrap();
            assert!(buffered.skip_to(place, 1, None).unwrap());
            buffered.before()
        };
        for place in [0, 3, 4096, 4097, 300_000, text.len() as u64] {
            let known = known(place);
            assert_eq!(known.bytes, place.min(4096));
            // A digit more in a row behind the first 4 KiB.
            let mut other = text.clone();
            other.insert(5000, '7');
            for (text, same) in [(&text, true), (&other, place < 5000)] {
                fs::write(&path, text).unwrap();
                for mut buffered in [
                    Buffered::of_file(&path).unwrap(),
                    Buffered::of_bytes(text.as_bytes()),
                ] {
                    buffered.beginning(None).unwrap();
                    let found = buffered.skip_to(place, 1, Some(&known)).unwrap();
                    assert_eq!(found, same, "{place}");
                }
            }
        }
    }

    #[test]
    fn an_input_is_known_by_its_beginning_also_when_it_has_grown() {
        let of = |bytes: &[u8], known| Buffered::of_bytes(bytes).beginning(known).unwrap();
        let short = of(b"user_id\n1\n", None);
        assert_eq!(of(b"user_id\n1\n2\n", Some(&short)), short);
        assert_ne!(of(b"user_id\n2\n", Some(&short)), short);
        assert_ne!(of(b"user_id\n", Some(&short)), short);
    }

    #[test]
    fn a_byte_order_mark_is_stepped_over() {
        let mut buffered = Buffered::of_bytes(b"\xef\xbb\xbfuser_id\n");
        buffered.beginning(None).unwrap();
        assert_eq!(buffered.data(), b"user_id\n");
        assert_eq!(buffered.offset, 3);
    }
}
