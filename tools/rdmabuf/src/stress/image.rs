// SPDX-License-Identifier: GPL-2.0

//! What a buffer should hold, kept in memory of this program, and the comparison with what it does hold.

use crate::{exporter::Buffer, pattern::Pattern, verify};
use anyhow::{Result, bail, ensure};
use std::ops::Range;

/// Bytes before and after a transfer that must be as they were.
const GUARD: u64 = 4096;

/// The bytes that a buffer should hold.
pub(super) struct Image {
    bytes: Vec<u8>,
}

impl Image {
    /// Fills the buffer with the pattern of a seed.
    pub(super) fn fill(buffer: &dyn Buffer, seed: u64) -> Result<Self> {
        let mut bytes = vec![0; buffer.length()];
        Pattern::new(seed).fill(0, &mut bytes);
        buffer.write(0, &bytes)?;
        Ok(Self { bytes })
    }

    /// Puts the pattern of a seed into a part, and into the buffer.
    pub(super) fn put(&mut self, buffer: &dyn Buffer, range: &Range<u64>, seed: u64) -> Result<()> {
        let bytes = &mut self.bytes[indices(range)?];
        Pattern::new(seed).fill(range.start, bytes);
        buffer.write(range.start, bytes)
    }

    /// The bytes of a part.
    pub(super) fn part(&self, range: &Range<u64>) -> Result<&[u8]> {
        Ok(&self.bytes[indices(range)?])
    }

    /// Expects other bytes at `at` and after it.
    pub(super) fn expect(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        let range = at..at + bytes.len() as u64;
        self.bytes[indices(&range)?].copy_from_slice(bytes);
        Ok(())
    }

    /// Compares a part of the buffer and the guard around it; the number of bytes compared.
    pub(super) fn check(&self, buffer: &dyn Buffer, range: &Range<u64>) -> Result<u64> {
        let guarded = self.guarded(range);
        let mut found = vec![0; indices(&guarded)?.len()];
        buffer.read(guarded.start, &mut found)?;
        let wanted = self.part(&guarded)?;
        if let Some(index) = (found != wanted)
            .then(|| found.iter().zip(wanted).position(|(a, b)| a != b))
            .flatten()
        {
            let at = guarded.start + index as u64;
            let wrong = found.iter().zip(wanted).filter(|(a, b)| a != b).count();
            bail!(
                "byte {at} is {:#04x} and should be {:#04x}, {} {range:?}; {wrong} bytes of {guarded:?} are wrong",
                found[index],
                wanted[index],
                if range.contains(&at) {
                    "inside"
                } else {
                    "outside"
                },
            );
        }
        Ok(found.len() as u64)
    }

    /// Takes over what a transfer that failed has left: each byte is the one before or the new one.
    pub(super) fn settle(&mut self, buffer: &dyn Buffer, at: u64, new: &[u8]) -> Result<()> {
        let range = at..at + new.len() as u64;
        let mut found = vec![0; new.len()];
        buffer.read(at, &mut found)?;
        let old = self.part(&range)?;
        let stray = (0..found.len()).find(|&n| found[n] != old[n] && found[n] != new[n]);
        if let Some(index) = stray {
            bail!(
                "byte {} is {:#04x} after a transfer that failed, and should be {:#04x} as before or {:#04x}",
                at + index as u64,
                found[index],
                old[index],
                new[index]
            );
        }
        self.expect(at, &found)
    }

    /// Compares all of the buffer through its mapping; the number of bytes compared.
    pub(super) fn check_all(&self, buffer: &dyn Buffer) -> Result<u64> {
        let wanted = |at: u64, into: &mut [u8]| {
            let start = at as usize;
            into.copy_from_slice(&self.bytes[start..][..into.len()]);
        };
        let wrong = verify::first_difference(buffer, &(0..0), &wanted)?;
        ensure!(
            wrong.is_none(),
            "byte {} is not what it should be, seen through the mapping",
            wrong.unwrap_or(0)
        );
        Ok(self.bytes.len() as u64)
    }

    fn guarded(&self, range: &Range<u64>) -> Range<u64> {
        let end = range.end.saturating_add(GUARD);
        range.start.saturating_sub(GUARD)..end.min(self.bytes.len() as u64)
    }
}

fn indices(range: &Range<u64>) -> Result<Range<usize>> {
    Ok(usize::try_from(range.start)?..usize::try_from(range.end)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exporter::{Kind, VramLayout};

    const LENGTH: usize = 16 * 4096;

    fn filled() -> Result<(Box<dyn Buffer>, Image)> {
        let buffer = Kind::Plain
            .exporter(VramLayout::Changing)
            .allocate(LENGTH)?;
        let image = Image::fill(&*buffer, 5)?;
        Ok((buffer, image))
    }

    /// Turns a byte of the buffer over.
    fn spoil(buffer: &dyn Buffer, at: u64) -> Result<()> {
        let mut byte = [0];
        buffer.read(at, &mut byte)?;
        buffer.write(at, &[!byte[0]])
    }

    #[test]
    fn what_was_put_is_found() -> Result<()> {
        let (buffer, mut image) = filled()?;
        image.put(&*buffer, &(5000..9000), 6)?;
        buffer.write(20_000, b"arrived")?;
        image.expect(20_000, b"arrived")?;
        assert_eq!(image.check(&*buffer, &(20_000..20_007))?, 7 + 2 * GUARD);
        assert_eq!(image.check_all(&*buffer)?, LENGTH as u64);
        Ok(())
    }

    #[test]
    fn a_spoilt_byte_of_the_range_or_its_guard_is_named() -> Result<()> {
        for (at, told) in [
            (8000, "inside"),
            (9999, "inside"),
            (7999, "outside"),
            (10_000, "outside"),
            (8000 - GUARD, "outside"),
            (9999 + GUARD, "outside"),
        ] {
            let (buffer, image) = filled()?;
            spoil(&*buffer, at)?;
            let error = image.check(&*buffer, &(8000..10_000)).expect_err(told);
            let error = error.to_string();
            assert!(
                error.contains(&format!("byte {at} is")) && error.contains(told),
                "{error}"
            );
        }
        Ok(())
    }

    #[test]
    fn guards_end_with_the_buffer() -> Result<()> {
        let (buffer, image) = filled()?;
        assert_eq!(image.check(&*buffer, &(0..1))?, 1 + GUARD);
        assert_eq!(
            image.check(&*buffer, &(LENGTH as u64 - 1..LENGTH as u64))?,
            1 + GUARD
        );
        Ok(())
    }

    #[test]
    fn one_spoilt_byte_anywhere_is_seen_in_the_whole() -> Result<()> {
        for at in [0, 33_333, LENGTH as u64 - 1] {
            let (buffer, image) = filled()?;
            spoil(&*buffer, at)?;
            assert!(image.check_all(&*buffer).is_err(), "{at}");
        }
        Ok(())
    }

    #[test]
    fn a_failed_transfer_leaves_old_bytes_and_new_ones_and_no_others() -> Result<()> {
        let (buffer, mut image) = filled()?;
        let old = image.part(&(100..110))?.to_vec();
        let new: Vec<u8> = old.iter().map(|byte| byte ^ 1).collect();
        buffer.write(104, &new[4..])?;
        image.settle(&*buffer, 100, &new)?;
        image.check_all(&*buffer)?;
        buffer.write(107, &[old[7] ^ 2])?;
        let error = image.settle(&*buffer, 100, &new).expect_err("a stray byte");
        assert!(error.to_string().contains("byte 107 is"), "{error}");
        Ok(())
    }
}
