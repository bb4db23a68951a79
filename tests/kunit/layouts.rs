// SPDX-License-Identifier: GPL-2.0

//! Layouts of buffers, and windows in them, as exporters and programs could choose them: drawn by
//! dice that fall alike for the same seed, and loaded so that neighbours touch, blocks fit and
//! ends meet often enough to matter.
//!
//! Pure arithmetic on `core` alone. All amounts are bytes.

use crate::window::{
    Segment,
    PAGE_MASK,
    PAGE_SIZE, //
};

/// The most entries that a layout is drawn with; splitting may double them.
const DRAWN: usize = 12;

/// The longest that one entry can be: its length is a `u32`.
const LONGEST: u64 = (1 << 32) - PAGE_SIZE;

/// Numbers that look random.
pub(crate) struct Dice(u64);

impl Dice {
    /// The dice for one round; any round can be drawn without those before it.
    pub(crate) fn new(seed: u64, round: u64) -> Self {
        let mut dice = Self(seed);

        Self(dice.roll() ^ round.wrapping_mul(0xd605_1ba6_2f2e_8a35))
    }

    /// Any number: a counter, each bit of which is spread over all of the result.
    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        for (shift, factor) in [
            (30, 0xbf58_476d_1ce4_e5b9),
            (27, 0x94d0_49bb_1331_11eb),
            (31, 1u64),
        ] {
            mixed = (mixed ^ (mixed >> shift)).wrapping_mul(factor);
        }
        mixed
    }

    /// A number of `0..end`; 0 if that is empty.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.roll().checked_rem(end).unwrap_or(0)
    }

    /// Whether something happens that happens once in `times`.
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of `items`, which are some.
    fn one_of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize]
    }
}

/// How large the runs of a layout are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scale {
    /// 1 to 512 pages each.
    Pages,
    /// Up to almost 4 GiB each.
    Gigabytes,
}

impl Scale {
    /// What every length of a layout is a multiple of, and by how much most addresses agree with
    /// the place in the buffer.
    fn grain(self, dice: &mut Dice) -> u64 {
        match self {
            Self::Pages => dice.one_of(&[PAGE_SIZE, PAGE_SIZE, 1 << 16, 1 << 21]),
            Self::Gigabytes => dice.one_of(&[PAGE_SIZE, 1 << 21, 1 << 21, 1 << 30]),
        }
    }

    fn run(self, dice: &mut Dice) -> u64 {
        const LENGTHS: [u64; 10] = [
            PAGE_SIZE,
            1 << 16,
            1 << 21,
            (1 << 21) - PAGE_SIZE,
            1 << 30,
            (1 << 30) + (1 << 21),
            1 << 31,
            (1 << 31) + PAGE_SIZE,
            (1 << 32) - (1 << 21),
            LONGEST,
        ];
        let few = 1 + dice.below(4);
        let any = 1 + dice.below(512);
        let power = 1 << dice.below(10);

        match self {
            Self::Pages => dice.one_of(&[few, few, any, power, 512]) * PAGE_SIZE,
            Self::Gigabytes => dice.one_of(&LENGTHS),
        }
    }
}

/// Where the memory of a buffer is.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    entries: [Segment; 2 * DRAWN],
    len: usize,
    /// See [`Scale::grain`].
    grain: u64,
}

impl Layout {
    fn empty(grain: u64) -> Self {
        Self {
            entries: [Segment { addr: 0, len: 0 }; 2 * DRAWN],
            len: 0,
            grain,
        }
    }

    /// The layout of a buffer that is there already; of its first entries, if they are many.
    pub(crate) fn of(table: &[Segment]) -> Self {
        let mut layout = Self::empty(PAGE_SIZE);

        for entry in table {
            layout.push(*entry);
        }
        layout
    }

    fn push(&mut self, entry: Segment) {
        if let Some(slot) = self.entries.get_mut(self.len) {
            *slot = entry;
            self.len += 1;
        }
    }

    pub(crate) fn entries(&self) -> &[Segment] {
        &self.entries[..self.len]
    }

    /// Bytes in the buffer.
    pub(crate) fn size(&self) -> u64 {
        self.entries().iter().map(|entry| entry.len).sum()
    }

    /// Draws the lengths.
    fn draw(dice: &mut Dice, scale: Scale) -> Self {
        let mut layout = Self::empty(scale.grain(dice));

        for _ in 0..=dice.below(DRAWN as u64) {
            let len = scale.run(dice) & !(layout.grain - 1);
            layout.push(Segment {
                addr: 0,
                len: len.max(layout.grain),
            });
        }
        layout
    }

    /// Gives each entry a new address, in a buffer whose first byte would be at `home`.
    fn place(&mut self, dice: &mut Dice, home: u64) {
        let mut after = None;
        let mut position = home;

        for entry in &mut self.entries[..self.len] {
            let top = u64::MAX - entry.len + 1;
            let order = u64::from(self.grain.trailing_zeros()) + dice.below(12);
            let low = (1 << order) - 1;
            let high = dice.below(1 << 16) << order;
            let agreeing = high | (position & low);
            let anywhere = dice.below(1 << 30) * PAGE_SIZE;
            let next = after.unwrap_or(agreeing);

            // Neighbours by intent; fit for large blocks; unfit; at the end of the addresses.
            let addr = match dice.below(32) {
                0..=13 => next,
                14..=29 => agreeing,
                30 => anywhere,
                _ => top,
            };
            entry.addr = addr.min(top) & PAGE_MASK;
            after = entry.addr.checked_add(entry.len);
            position = position.wrapping_add(entry.len);
        }
    }

    /// The same memory, some entries of it given as two.
    fn split(&self, dice: &mut Dice) -> Self {
        let mut split = Self::empty(self.grain);

        for entry in self.entries() {
            let first = dice.below(entry.len) & !(self.grain - 1);

            if first != 0 && dice.once_in(3) {
                split.push(Segment {
                    addr: entry.addr,
                    len: first,
                });
                split.push(Segment {
                    addr: entry.addr + first,
                    len: entry.len - first,
                });
            } else {
                split.push(*entry);
            }
        }
        split
    }

    /// The same lengths, or some of them in two, elsewhere.
    pub(crate) fn moved(&self, dice: &mut Dice, home: u64) -> Self {
        let mut moved = if self.len <= DRAWN && dice.once_in(2) {
            self.split(dice)
        } else {
            *self
        };

        moved.place(dice, home);
        moved
    }
}

/// A buffer and the address at which its first byte would be.
#[derive(Clone, Copy)]
pub(crate) struct Buffer {
    pub(crate) layout: Layout,
    pub(crate) home: u64,
}

impl Buffer {
    pub(crate) fn draw(dice: &mut Dice, scale: Scale) -> Self {
        let mut layout = Layout::draw(dice, scale);
        let size = layout.size();
        let order = 12 + dice.below(28);
        let page = dice.below(64) * PAGE_SIZE;
        let aligned = dice.below(1 << 20) << order;
        let top = (u64::MAX - size + 1) - dice.below(4) * PAGE_SIZE;
        let mut home = dice.one_of(&[page, aligned, aligned, top]);
        if !dice.once_in(4) {
            home &= !(layout.grain - 1);
        }

        layout.place(dice, home);
        if dice.once_in(3) {
            layout = layout.split(dice);
        }
        Self { layout, home }
    }

    /// A byte near the start or end of an entry, or any.
    fn byte(&self, dice: &mut Dice) -> u64 {
        let size = self.layout.size();
        let entry = dice.below(self.layout.len as u64) as usize;
        let edge: u64 = self.layout.entries()[..entry].iter().map(|it| it.len).sum();
        let near = (edge + dice.below(3)).saturating_sub(1);
        let any = dice.below(size);

        dice.one_of(&[0, size - 1, near, any, any & PAGE_MASK])
            .min(size - 1)
    }
}

/// A window of a buffer, and the sizes of blocks that a driver knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cutout {
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) iova: u64,
    pub(crate) block_sizes: u64,
}

impl Cutout {
    /// A window that lies in the buffer.
    pub(crate) fn draw(dice: &mut Dice, buffer: &Buffer) -> Self {
        let (one, other) = (buffer.byte(dice), buffer.byte(dice));
        let (first, mut last) = (one.min(other), one.max(other));
        if dice.once_in(4) {
            last = last.min(first + dice.below(4 * PAGE_SIZE));
        }

        let length = last - first + 1;
        let least = Self::least(length);
        Self {
            offset: first,
            length,
            iova: Self::iova(dice, buffer.home + first, length),
            block_sizes: (Self::sizes(dice) & !(least - 1)) | (least & dice.roll()),
        }
    }

    /// Where peers find a window that would be at `here`: there, or with other high bits, or with
    /// nothing in common above the page.
    fn iova(dice: &mut Dice, here: u64, length: u64) -> u64 {
        let order = 12 + dice.below(20);
        let shifted = here.wrapping_add(dice.roll() << order);
        let any = (dice.roll() & PAGE_MASK) | (here & !PAGE_MASK);
        let chosen = dice.one_of(&[here, here, here, shifted, any]);

        // Not past the end of the addresses.
        match chosen.checked_add(length - 1) {
            Some(_) => chosen,
            None => here,
        }
    }

    fn sizes(dice: &mut Dice) -> u64 {
        let mut few = 0;
        for _ in 0..=dice.below(4) {
            few |= 1 << (12 + dice.below(24));
        }
        let any = dice.roll();
        let usual = PAGE_SIZE | (1 << 21) | (1 << 30);

        dice.one_of(&[
            PAGE_SIZE,
            usual,
            PAGE_MASK,
            PAGE_MASK,
            any,
            few,
            few | PAGE_SIZE,
        ])
    }

    /// A window of a buffer of `size` bytes that may be in it or not, with as much in common of
    /// offset and iova as core's caller looks after.
    pub(crate) fn rough(dice: &mut Dice, size: u64) -> Self {
        let mut amount = || {
            let (far, near) = (dice.roll(), dice.below(2 * size));
            let notable = [
                0,
                1,
                PAGE_SIZE,
                size,
                u64::MAX,
                u64::MAX - PAGE_SIZE,
                far,
                near,
                near,
            ];
            let step = dice.below(5);

            dice.one_of(&notable).wrapping_add(step).wrapping_sub(2)
        };
        let (offset, length) = (amount(), amount());

        Self {
            offset,
            length,
            iova: (amount() & PAGE_MASK) | (offset & !PAGE_MASK),
            block_sizes: PAGE_SIZE,
        }
    }

    /// The size that cuts `length` bytes into a thousand blocks or two at most; a page or more.
    fn least(length: u64) -> u64 {
        (length >> 10).next_power_of_two().max(PAGE_SIZE)
    }
}
