//! Reading packed bytes without ever reading past them.

use super::DecodeError;

/// A cursor over the bytes of a block.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn u8(&mut self) -> Result<u8, DecodeError> {
        let (&first, rest) = self.rest.split_first().ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(first)
    }

    pub(super) fn u64(&mut self) -> Result<u64, DecodeError> {
        let (first, rest) = self
            .rest
            .split_first_chunk()
            .ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*first))
    }

    /// A varint in its shortest form.
    pub(super) fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let low = u64::from(byte & 0x7f);
            if shift == 63 && low > 1 {
                break;
            }
            value |= low << shift;
            if byte & 0x80 == 0 {
                let shortest = byte != 0 || shift == 0;
                return shortest
                    .then_some(value)
                    .ok_or(DecodeError::OutOfPlace("a number"));
            }
        }
        Err(DecodeError::OutOfPlace("a number"))
    }

    /// A count, then as many items of at least `least` bytes each. The count is believed only as far
    /// as the bytes can hold it, so that a wrong one cannot ask for memory.
    pub(super) fn list<T>(
        &mut self,
        least: usize,
        mut item: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let count = usize::try_from(self.varint()?).map_err(|_| DecodeError::Truncated)?;
        if count > self.rest.len() / least {
            return Err(DecodeError::Truncated);
        }
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(item(self)?);
        }
        Ok(items)
    }

    pub(super) fn end(&self) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            trailing => Err(DecodeError::Trailing(trailing)),
        }
    }
}
