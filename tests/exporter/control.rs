// SPDX-License-Identifier: GPL-2.0

//! The commands of `/dev/vram_exporter`: arguments are judged here, and done elsewhere.

use crate::{
    dma_buf::DmaBuf,
    uapi::{
        self,
        command,
        Argument, //
    },
    vram::{
        buffer::{
            Buffer,
            Placement,
            Rules,
            Wish, //
        },
        faults::{
            Action,
            Forgery,
            Op, //
        },
        fence::{
            Fence,
            Usage, //
        },
        layout::{
            Kind,
            Layout, //
        },
        loops::MoveLoop,
        moves::Destination,
        ops::{
            self,
            Live,
            Mode, //
        },
    },
};
use kernel::{
    fs::File,
    miscdevice::{
        MiscDevice,
        MiscDeviceRegistration, //
    },
    module::this_module,
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
    transmute::AsBytes,
    uaccess::{
        UserPtr,
        UserSlice, //
    },
};

/// The longest that a revoke waits.
const MAX_TIMEOUT_MS: u32 = 10_000;

/// The longest that a fence takes.
const MAX_FENCE_MS: u32 = 60_000;

/// The largest errno.
const MAX_ERRNO: u32 = 4095;

/// Bytes that are copied in one go, between which the buffer may move.
const CHUNK: usize = 64 << 10;

/// An open file of the device.
#[pin_data]
pub(crate) struct Control {
    /// The buffers that move, and what moves them.
    #[pin]
    loops: Mutex<KVec<(Arc<Buffer>, MoveLoop)>>,
}

#[vtable]
impl MiscDevice for Control {
    type Ptr = Pin<KBox<Self>>;

    fn open(_file: &File, _misc: &MiscDeviceRegistration<Self>) -> Result<Self::Ptr> {
        KBox::pin_init(
            pin_init!(Self {
                loops <- new_mutex!(KVec::new(), "vram_exporter::loops"),
            }),
            GFP_KERNEL,
        )
    }

    fn ioctl(this: Pin<&Self>, _file: &File, cmd: u32, arg: usize) -> Result<isize> {
        let user = UserPtr::from_addr(arg);

        match cmd {
            command::CREATE => return create(read(user)?),
            command::MOVE => r#move(read(user)?)?,
            command::LOOP => this.r#loop(read(user)?)?,
            command::REVOKE => revoke(read(user)?)?,
            command::UNREVOKE => on(read(user)?, |live| {
                live.unrevoke();
                Ok(())
            })?,
            command::PIN_QUOTA => pin_quota(read(user)?)?,
            command::FENCE => fence(read(user)?)?,
            command::SIGNAL => on(read(user)?, |live| {
                live.signal_fences();
                Ok(())
            })?,
            command::FAULT => fault(read(user)?)?,
            command::STATS => stats(user)?,
            command::READ => copy(read(user)?, false)?,
            command::WRITE => copy(read(user)?, true)?,
            command::INVALIDATE => on(read(user)?, |live| {
                live.invalidate();
                Ok(())
            })?,
            command::SHRINK => on(read(user)?, |live| live.shrink())?,
            command::MOVE_BOTH => move_both(read(user)?)?,
            _ => return Err(ENOTTY),
        }
        Ok(0)
    }
}

/// Reads the argument of a command.
fn read<T: Argument>(user: UserPtr) -> Result<T> {
    UserSlice::new(user, size_of::<T>()).reader().read()
}

fn expect(holds: bool) -> Result {
    holds.then_some(()).ok_or(EINVAL)
}

/// Does something to the buffer of a file descriptor.
fn with<R>(fd: i32, act: impl FnOnce(&Live<'_, Buffer>) -> Result<R>) -> Result<R> {
    let dmabuf = DmaBuf::from_fd(fd)?;
    let live = Live::of(&dmabuf).ok_or(EINVAL)?;

    act(&live)
}

fn on(arg: uapi::Buffer, act: impl FnOnce(&Live<'_, Buffer>) -> Result) -> Result {
    expect(arg.reserved == [0; 3])?;
    with(arg.fd, act)
}

/// [`None`] for the layout that the buffer was made with.
fn layout(number: u32) -> Result<Option<Kind>> {
    use uapi::layout::*;

    Ok(Some(match number {
        SAME => return Ok(None),
        ONE_RUN => Kind::OneRun,
        HUGE => Kind::Huge,
        SCATTERED => Kind::Scattered,
        UNEVEN => Kind::Uneven,
        MERGED => Kind::Merged,
        SPLIT => Kind::Split,
        CHANGING => Kind::Changing,
        _ => return Err(EINVAL),
    }))
}

/// [`None`] for where the buffer is.
fn placement(number: u32) -> Result<Option<Placement>> {
    use uapi::placement::*;

    match number {
        SAME => Ok(None),
        VRAM => Ok(Some(Placement::Vram)),
        SYSTEM => Ok(Some(Placement::System)),
        _ => Err(EINVAL),
    }
}

/// [`None`] for 0.
fn errno(number: u32) -> Result<Option<Error>> {
    expect(number <= MAX_ERRNO)?;
    Ok((number != 0).then(|| Error::from_errno(-(number as i32))))
}

fn mode(flags: u32) -> Result<Mode> {
    use uapi::open::*;

    expect(flags & !(ACCESS | CLOEXEC) == 0)?;
    match flags & ACCESS {
        READ_ONLY => Ok(Mode::ReadOnly),
        WRITE_ONLY => Ok(Mode::WriteOnly),
        READ_WRITE => Ok(Mode::ReadWrite),
        _ => Err(EINVAL),
    }
}

fn create(arg: uapi::Create) -> Result<isize> {
    let card = uapi::card()?;
    let mode = mode(arg.open_flags)?;

    expect(arg.reserved == [0; 2])?;
    expect(arg.flags & !(uapi::ONLY_REVOCABLE | uapi::RECLAIMABLE) == 0)?;
    expect(arg.size <= card.size_limit)?;

    let buffer = Buffer::new(Wish {
        size: arg.size,
        layout: Layout::Kind(layout(arg.layout)?.ok_or(EINVAL)?),
        placement: placement(arg.placement)?.ok_or(EINVAL)?,
        rules: Rules {
            only_revocable: arg.flags & uapi::ONLY_REVOCABLE != 0,
            ..Rules::ANY
        },
        pool: Some(card.pool),
        hollow: KVec::new(),
    })?;
    let module = this_module::<crate::LocalModule>();
    let name = c"vram_exporter";
    let dmabuf = ops::export(buffer.clone(), name, module, arg.size, mode, None)?;

    if arg.flags & uapi::RECLAIMABLE != 0 {
        card.reclaimable.add(buffer)?;
    }

    Ok(ops::open(dmabuf, arg.open_flags & uapi::open::CLOEXEC != 0)? as isize)
}

fn r#move(arg: uapi::Move) -> Result {
    let layout = layout(arg.layout)?.map(Layout::Kind);
    let to = Destination {
        placement: placement(arg.placement)?,
        layout: layout.as_ref(),
        fence: None,
    };

    expect(arg.reserved == [0; 2] && arg.fence_ms <= MAX_FENCE_MS)?;
    with(arg.fd, |live| match arg.fence_ms {
        0 => live.move_to(to),
        ms => live.move_and_keep(to, Fence::after(ms, None)?),
    })
}

fn move_both(arg: uapi::Pair) -> Result {
    expect(arg.reserved == 0)?;
    with(arg.fd, |live| {
        with(arg.other, |other| live.move_both(other))
    })
}

impl Control {
    fn r#loop(&self, arg: uapi::Loop) -> Result {
        let placement = placement(arg.placement)?;

        expect(arg.reserved == 0)?;
        let buffer = with(arg.fd, |live| Ok(live.to_exporter()))?;
        let next = match arg.per_second {
            0 => None,
            rate => Some(MoveLoop::start(buffer.clone(), rate, placement)?),
        };

        let mut loops = self.loops.lock();
        // Those of buffers that are gone have nothing to do any more.
        loops
            .retain(|(other, _)| !Arc::ptr_eq(other, &buffer) && other.stats().releases.get() == 0);
        if let Some(next) = next {
            loops.push((buffer, next), GFP_KERNEL)?;
        }
        Ok(())
    }
}

fn revoke(arg: uapi::Revoke) -> Result {
    expect(arg.reserved == 0 && arg.timeout_ms <= MAX_TIMEOUT_MS)?;
    with(arg.fd, |live| live.revoke(arg.timeout_ms))
}

fn pin_quota(arg: uapi::PinQuota) -> Result {
    expect(arg.reserved == 0)?;
    with(arg.fd, |live| {
        live.exporter()
            .change_rules(|rules| rules.pin_quota = arg.pins);
        Ok(())
    })
}

fn fence(arg: uapi::Fence) -> Result {
    let error = errno(arg.error)?;
    let usage = match arg.usage {
        uapi::usage::KERNEL => Usage::Kernel,
        uapi::usage::WRITE => Usage::Write,
        uapi::usage::READ => Usage::Read,
        uapi::usage::BOOKKEEP => Usage::Bookkeep,
        _ => return Err(EINVAL),
    };
    let is_endless = arg.after_ms == uapi::NEVER;

    expect(arg.reserved == [0; 2])?;
    expect(arg.after_ms <= MAX_FENCE_MS || (is_endless && error.is_none()))?;
    with(arg.fd, |live| {
        let fence = if is_endless {
            Fence::new()?
        } else {
            Fence::after(arg.after_ms, error)?
        };

        live.keep_fence(fence, usage)
    })
}

fn op(number: u32) -> Result<Op> {
    use uapi::op::*;

    match number {
        ATTACH => Ok(Op::Attach),
        PIN => Ok(Op::Pin),
        MAP => Ok(Op::Map),
        UNMAP => Ok(Op::Unmap),
        _ => Err(EINVAL),
    }
}

/// [`None`] for no fault at all.
fn action(number: u32, error: Option<Error>, other: i32) -> Result<Option<Action>> {
    use uapi::action::*;

    expect((number == FAIL) == error.is_some())?;
    expect(number == EVICT || other == 0)?;
    Ok(Some(match number {
        CLEAR => return Ok(None),
        FAIL => Action::Fail(error.ok_or(EINVAL)?),
        INVALIDATE => Action::CallBack,
        NO_P2P => Action::ClearPeer2peer,
        NULL => Action::Nothing,
        SHORT => Action::Forge(Forgery::Short),
        EMPTY => Action::Forge(Forgery::Empty),
        OVER_LONG => Action::Forge(Forgery::OverLong),
        UNALIGNED => Action::Forge(Forgery::Unaligned),
        ZERO_LENGTH => Action::Forge(Forgery::ZeroLength),
        HUGE => Action::Forge(Forgery::Huge),
        IO => Action::Forge(Forgery::Io),
        EVICT => Action::Evict(with(other, |other| Ok(other.to_exporter()))?),
        _ => return Err(EINVAL),
    }))
}

fn fault(arg: uapi::Fault) -> Result {
    let action = action(arg.action, errno(arg.error)?, arg.other)?;

    expect(arg.reserved == [0; 2])?;
    with(arg.fd, |live| {
        let Some(action) = action else {
            live.exporter().with_faults(|faults| faults.forget_all());
            return Ok(());
        };
        let op = op(arg.op)?;
        let every = (arg.every != 0).then_some(arg.every);

        live.exporter()
            .with_faults(|faults| faults.order(op, action, every))
    })
}

fn stats(user: UserPtr) -> Result {
    let (mut reader, mut writer) = UserSlice::new(user, size_of::<uapi::Stats>()).reader_writer();
    let arg: uapi::Stats = reader.read()?;
    let empty = uapi::Stats {
        fd: arg.fd,
        ..Default::default()
    };

    expect(arg.as_bytes() == empty.as_bytes())?;
    let result = with(arg.fd, |live| Ok(stats_of(arg.fd, live.exporter())))?;
    writer.write(&result)
}

fn stats_of(fd: i32, buffer: &Buffer) -> uapi::Stats {
    let stats = buffer.stats();
    let (pinned, mapped) = buffer.in_use();

    uapi::Stats {
        fd,
        placement: match buffer.placement() {
            Placement::Vram => uapi::placement::VRAM,
            Placement::System => uapi::placement::SYSTEM,
        },
        is_revoked: buffer.is_revoked().into(),
        pinned,
        mapped,
        attaches: stats.attaches.get(),
        detaches: stats.detaches.get(),
        maps: stats.maps.get(),
        unmaps: stats.unmaps.get(),
        pins: stats.pins.get(),
        unpins: stats.unpins.get(),
        vmaps: stats.vmaps.get(),
        vunmaps: stats.vunmaps.get(),
        cpu_begins: stats.cpu_begins.get(),
        cpu_ends: stats.cpu_ends.get(),
        invalidations: stats.invalidations.get(),
        moves: stats.moves.get(),
        breaches: stats.breaches.get(),
        late_writes: buffer.late_writes(),
        guard_writes: stats.guard_writes.get(),
        vram_late_writes: buffer.pool_late_writes(),
        ..Default::default()
    }
}

/// Copies between the buffer and user space, by way of other memory: user space may fault, which
/// is not allowed under the reservation lock.
fn copy(arg: uapi::Copy, is_write: bool) -> Result {
    let length = usize::try_from(arg.length)?;
    let address = usize::try_from(arg.address)?;

    expect(arg.reserved32 == 0 && arg.reserved == 0)?;
    with(arg.fd, |live| {
        let end = arg.offset.checked_add(arg.length).ok_or(EINVAL)?;
        let mut bytes = KVVec::from_elem(0, length.min(CHUNK), GFP_KERNEL)?;

        expect(end <= live.exporter().size())?;
        for done in (0..length).step_by(CHUNK) {
            let part = bytes.len().min(length - done);
            let part = bytes.get_mut(..part).ok_or(EINVAL)?;
            let user = UserPtr::from_addr(address.checked_add(done).ok_or(EFAULT)?);
            let user = UserSlice::new(user, part.len());
            let offset = arg.offset + done as u64;

            if is_write {
                user.reader().read_slice(part)?;
                live.write(offset, part)?;
            } else {
                live.read(offset, part)?;
                user.writer().write_slice(part)?;
            }
        }
        Ok(())
    })
}
