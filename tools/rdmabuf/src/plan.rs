// SPDX-License-Identifier: GPL-2.0

//! Which transfers a demo makes: every operation once with everything on page boundaries, and at least
//! once with nothing on one. Pure arithmetic.

use crate::region::Region;
use serde::Serialize;
use std::{fmt, ops::Range};

/// A kind of transfer. The bytes always go from the source's buffer to the target's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Operation {
    /// The source's side writes.
    #[serde(rename = "RDMA WRITE")]
    Write,
    /// The target's side reads.
    #[serde(rename = "RDMA READ")]
    Read,
    /// The source's side sends, the target's receives.
    #[serde(rename = "SEND/RECV")]
    SendReceive,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Write => "RDMA WRITE",
            Self::Read => "RDMA READ",
            Self::SendReceive => "SEND/RECV",
        })
    }
}

/// One side of a transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    /// What is registered of the side's buffer.
    pub(crate) region: Region,
    /// Where in the buffer the bytes are.
    pub(crate) at: u64,
}

/// One transfer, a row of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) operation: Operation,
    pub(crate) source: End,
    pub(crate) target: End,
    pub(crate) length: u64,
    /// How many bytes one work request carries.
    pub(crate) chunk: u32,
}

impl Step {
    /// The bytes of the target's buffer that are written.
    pub(crate) fn written(&self) -> Range<u64> {
        self.target.at..self.target.at + self.length
    }
}

/// The two buffers of a demo, and where the file is in the source's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Bytes of the file.
    pub(crate) file: u64,
    /// Bytes of each buffer.
    pub(crate) buffer: u64,
    page: u64,
}

/// Pages before and after the file that no transfer may touch.
const GUARD_PAGES: u64 = 16;
/// The chunk of transfers on page boundaries.
const WHOLE_CHUNK: u32 = 1 << 20;

impl Layout {
    /// The layout for a file of `file` bytes.
    pub(crate) fn new(file: u64, page: u64) -> Self {
        Self {
            file,
            buffer: file.next_multiple_of(page) + 2 * GUARD_PAGES * page,
            page,
        }
    }

    /// Where in the source's buffer the file is.
    pub(crate) fn file_range(&self) -> Range<u64> {
        let start = GUARD_PAGES * self.page;
        start..start + self.file
    }

    /// The part of the file that a step moves.
    pub(crate) fn moved(&self, step: &Step) -> Range<u64> {
        let start = step.source.at - self.file_range().start;
        start..start + step.length
    }

    /// All transfers of a demo, in their order.
    pub(crate) fn steps(&self) -> Vec<Step> {
        use Operation::{Read, SendReceive, Write};
        vec![
            self.whole(Write, self.file),
            self.odd(Write, 1_000_003, 65_537),
            self.last_byte(Write),
            self.whole(Read, self.file),
            self.odd(Read, 777_777, 123_457),
            self.whole(SendReceive, 4 << 20),
            self.odd(SendReceive, 500_009, 99_991),
        ]
    }

    /// From the file's start, with regions that are the whole buffers.
    fn whole(&self, operation: Operation, length: u64) -> Step {
        let end = End {
            region: Region::whole(self.buffer),
            at: self.file_range().start,
        };
        Step {
            operation,
            source: end,
            target: end,
            length,
            chunk: WHOLE_CHUNK,
        }
    }

    /// With no offset, length or address on a page boundary, and addresses unlike the offsets.
    fn odd(&self, operation: Operation, length: u64, chunk: u32) -> Step {
        Step {
            operation,
            source: End {
                region: self.skewed(2, 1_234, 555, 0x5a5a_0000_0000),
                at: self.file_range().start + 300_007,
            },
            target: End {
                region: self.skewed_target(),
                at: 3 * self.page - 13,
            },
            length,
            chunk,
        }
    }

    /// One byte, into the last one of the region.
    fn last_byte(&self, operation: Operation) -> Step {
        let odd = self.odd(operation, 1, 1);
        let Region { offset, length, .. } = odd.target.region;
        let target = End {
            at: offset + length - 1,
            ..odd.target
        };
        Step { target, ..odd }
    }

    fn skewed_target(&self) -> Region {
        self.skewed(1, 77, 1_001, 0x7e00_1234_5000)
    }

    /// A region that begins `in_page` bytes into a page, ends `spare` bytes before the buffer's end, and
    /// has addresses that agree with its offsets below the page size only.
    fn skewed(&self, pages: u64, in_page: u64, spare: u64, base: u64) -> Region {
        let offset = pages * self.page + in_page;
        Region {
            offset,
            length: self.buffer - offset - spare,
            iova: base.next_multiple_of(self.page) + in_page,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 4096;

    fn layouts() -> impl Iterator<Item = Layout> {
        let least = crate::payload::MINIMUM;
        [least, least + 1, least + PAGE - 1, 13_519_639]
            .into_iter()
            .map(|file| Layout::new(file, PAGE))
    }

    #[test]
    fn every_step_is_inside_the_file_the_regions_and_the_buffers() {
        for layout in layouts() {
            for step in layout.steps() {
                assert!(layout.moved(&step).end <= layout.file, "{step:?}");
                assert_eq!(layout.buffer % PAGE, 0);
                for End { region, at } in [step.source, step.target] {
                    assert!(region.address(at, step.length).is_some(), "{step:?}");
                    assert!(region.offset + region.length <= layout.buffer, "{step:?}");
                }
            }
        }
    }

    #[test]
    fn offset_and_iova_agree_below_the_page_size() {
        for step in layouts().flat_map(|layout| layout.steps()) {
            for End { region, .. } in [step.source, step.target] {
                assert_eq!(region.offset % PAGE, region.iova % PAGE, "{step:?}");
            }
        }
    }

    #[test]
    fn every_operation_has_an_aligned_step_and_one_with_nothing_aligned() {
        for layout in layouts() {
            for operation in [Operation::Write, Operation::Read, Operation::SendReceive] {
                let steps = layout.steps();
                let of_kind = || steps.iter().filter(|step| step.operation == operation);
                assert!(of_kind().any(|step| step.source.region.offset == 0));
                let odd = |end: &End| {
                    let Region {
                        offset,
                        length,
                        iova,
                    } = end.region;
                    iova != offset && [offset, length, end.at].iter().all(|n| n % PAGE != 0)
                };
                assert!(of_kind().any(|step| odd(&step.source)
                    && odd(&step.target)
                    && step.length % PAGE != 0
                    && u64::from(step.chunk) % PAGE != 0));
            }
        }
    }

    #[test]
    fn the_whole_file_is_written() {
        for layout in layouts() {
            let whole = |step: &Step| layout.moved(step) == (0..layout.file);
            assert!(
                layout
                    .steps()
                    .iter()
                    .any(|step| step.operation == Operation::Write && whole(step))
            );
        }
    }
}
