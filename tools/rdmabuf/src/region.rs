// SPDX-License-Identifier: GPL-2.0

//! The part of a buffer that a memory region covers, and the addresses it has there.

use std::fmt;

/// What a registration asks for: which bytes of the buffer, under which addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    /// First byte, counted from the start of the buffer.
    pub(crate) offset: u64,
    /// Number of bytes.
    pub(crate) length: u64,
    /// The address that the first byte has for RDMA.
    pub(crate) iova: u64,
}

impl Region {
    /// All of a buffer, addressed from zero.
    pub(crate) fn whole(length: u64) -> Self {
        Self {
            offset: 0,
            length,
            iova: 0,
        }
    }

    /// The RDMA address of the buffer's byte `at`, if all of `at..at + length` is in the region.
    pub(crate) fn address(&self, at: u64, length: u64) -> Option<u64> {
        let within = at.checked_sub(self.offset)?;
        let end = within.checked_add(length)?;
        (end <= self.length).then(|| self.iova.checked_add(within))?
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            offset,
            length,
            iova,
        } = self;
        write!(f, "offset={offset}, length={length}, iova={iova:#x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGION: Region = Region {
        offset: 100,
        length: 50,
        iova: 0x1064,
    };

    #[test]
    fn addresses_count_from_the_regions_first_byte() {
        assert_eq!(REGION.address(100, 50), Some(0x1064));
        assert_eq!(REGION.address(149, 1), Some(0x1064 + 49));
    }

    #[test]
    fn what_sticks_out_has_no_address() {
        assert_eq!(REGION.address(99, 1), None);
        assert_eq!(REGION.address(149, 2), None);
        assert_eq!(REGION.address(u64::MAX, 1), None);
        assert_eq!(REGION.address(100, u64::MAX), None);
    }
}
