// SPDX-License-Identifier: GPL-2.0

//! What a buffer holds, looked at through the exporter's own mapping, a window at a time.

use crate::exporter::Buffer;
use anyhow::Result;
use sha2::{Digest, Sha256};
use std::ops::Range;

/// How many bytes are copied out of a mapping at once.
const WINDOW: usize = 1 << 20;

/// Writes into `into` the bytes that should be at `at` and after it.
pub(crate) type Expected<'a> = dyn Fn(u64, &mut [u8]) + 'a;

/// SHA-256 of bytes at hand, in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(digest: &[u8]) -> String {
    digest
        .iter()
        .fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// SHA-256 of a buffer's bytes `range`, in hexadecimal.
pub(crate) fn sha256_of(buffer: &dyn Buffer, range: &Range<u64>) -> Result<String> {
    let mut digest = Sha256::new();
    let mut copy = vec![0; WINDOW];
    buffer.with_cpu_access(&mut |mapping| {
        for window in windows(range) {
            let bytes = part(&mut copy, &window);
            mapping.read(usize::try_from(window.start)?, bytes)?;
            digest.update(bytes);
        }
        Ok(())
    })?;
    Ok(hex(&digest.finalize()))
}

/// Makes all of a buffer what it is expected to be.
pub(crate) fn fill(buffer: &dyn Buffer, expected: &Expected<'_>) -> Result<()> {
    let mut copy = vec![0; WINDOW];
    buffer.with_cpu_access(&mut |mapping| {
        for window in windows(&(0..buffer.length() as u64)) {
            let bytes = part(&mut copy, &window);
            expected(window.start, bytes);
            mapping.write(usize::try_from(window.start)?, bytes)?;
        }
        Ok(())
    })
}

/// The place of the first byte that is not as expected, `except` not being looked at.
pub(crate) fn first_difference(
    buffer: &dyn Buffer,
    except: &Range<u64>,
    expected: &Expected<'_>,
) -> Result<Option<u64>> {
    let (mut copy, mut wanted) = (vec![0; WINDOW], vec![0; WINDOW]);
    let mut found = None;
    let end = buffer.length() as u64;
    let outside = [0..except.start.min(end), except.end.min(end)..end];
    buffer.with_cpu_access(&mut |mapping| {
        for window in outside.iter().flat_map(windows) {
            let bytes = part(&mut copy, &window);
            mapping.read(usize::try_from(window.start)?, bytes)?;
            let wanted = part(&mut wanted, &window);
            expected(window.start, wanted);
            if let Some(index) = differing(bytes, wanted) {
                found = Some(window.start + index as u64);
                break;
            }
        }
        Ok(())
    })?;
    Ok(found)
}

fn differing(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    if bytes == wanted {
        return None;
    }
    bytes.iter().zip(wanted).position(|(a, b)| a != b)
}

/// A range in steps of the window.
fn windows(range: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    let end = range.end;
    range
        .clone()
        .step_by(WINDOW)
        .map(move |start| start..end.min(start + WINDOW as u64))
}

/// As much of `copy` as `window` is long.
fn part<'a>(copy: &'a mut [u8], window: &Range<u64>) -> &'a mut [u8] {
    &mut copy[..(window.end - window.start) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        exporter::{Kind, VramLayout},
        pattern::Pattern,
    };

    const LENGTH: usize = 3 << 20;

    fn filled() -> Result<(Box<dyn Buffer>, Pattern)> {
        let (buffer, pattern) = (
            Kind::Plain
                .exporter(VramLayout::Changing)
                .allocate(LENGTH)?,
            Pattern::new(3),
        );
        fill(&*buffer, &|at, bytes| pattern.fill(at, bytes))?;
        Ok((buffer, pattern))
    }

    fn write(buffer: &dyn Buffer, at: usize, bytes: &[u8]) -> Result<()> {
        buffer.with_cpu_access(&mut |mapping| mapping.write(at, bytes))
    }

    fn difference(touched: &[usize], except: Range<u64>) -> Result<Option<u64>> {
        let (buffer, pattern) = filled()?;
        for at in touched {
            let mut byte = [0];
            pattern.fill(*at as u64, &mut byte);
            write(&*buffer, *at, &[!byte[0]])?;
        }
        first_difference(&*buffer, &except, &|at, bytes| pattern.fill(at, bytes))
    }

    #[test]
    fn an_untouched_buffer_has_no_difference() -> Result<()> {
        assert_eq!(difference(&[], 0..0)?, None);
        assert_eq!(difference(&[], 5..LENGTH as u64)?, None);
        Ok(())
    }

    #[test]
    fn bytes_of_the_written_range_do_not_count() -> Result<()> {
        assert_eq!(difference(&[10, 11, 12], 10..13)?, None);
        Ok(())
    }

    #[test]
    fn one_byte_before_or_after_the_written_range_is_found() -> Result<()> {
        assert_eq!(difference(&[9], 10..2_000_000)?, Some(9));
        assert_eq!(difference(&[2_000_000], 10..2_000_000)?, Some(2_000_000));
        assert_eq!(difference(&[LENGTH - 1], 10..20)?, Some(LENGTH as u64 - 1));
        assert_eq!(difference(&[0], 1..LENGTH as u64)?, Some(0));
        Ok(())
    }

    #[test]
    fn the_hash_of_a_range_is_that_of_its_bytes() -> Result<()> {
        let (buffer, pattern) = filled()?;
        let mut bytes = vec![0; 2_000_001];
        pattern.fill(4097, &mut bytes);
        assert_eq!(
            sha256_of(&*buffer, &(4097..4097 + 2_000_001))?,
            sha256(&bytes)
        );
        Ok(())
    }

    #[test]
    fn the_hash_is_sha256() {
        assert_eq!(
            sha256(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
