# SPDX-License-Identifier: GPL-2.0
"""Registrations that the exporter refuses: its errors reach the program, once, and nothing is left of the attempt."""

from __future__ import annotations

import errno
import functools
from collections.abc import Callable

import kmsg
import vram
from expect import refused, same, shell
from ktap import Suite
from uverbs import PAGE, READ_WRITE
from vram import Buffer, Control

EXPORTER = "/project/modules/vram_exporter.ko"
SIZE = 40 * PAGE

# What an operation fails with, and what the program is told. Numbers above 511 are the kernel's own.
ERRORS = {
    "ebusy": (errno.EBUSY, errno.EBUSY),
    "eopnotsupp": (errno.EOPNOTSUPP, errno.EOPNOTSUPP),
    "eperm": (errno.EPERM, errno.EPERM),
    "enodev": (errno.ENODEV, errno.ENODEV),
    "enomem": (errno.ENOMEM, errno.ENOMEM),
    "eintr": (errno.EINTR, errno.EINTR),
    "erestartsys": (512, errno.EINTR),
    "eprobe_defer": (517, errno.EIO),
    "enotsupp": (524, errno.EOPNOTSUPP),
}
# Tables that break the contract, and what the program is told.
TABLES = {
    "null": (vram.NULL, errno.ENOMEM),
    "short": (vram.SHORT, errno.EINVAL),
    "empty": (vram.EMPTY, errno.EINVAL),
    "unaligned": (vram.UNALIGNED, errno.EINVAL),
    "zero_length": (vram.ZERO_LENGTH, errno.EINVAL),
    "huge": (vram.HUGE_ENTRY, errno.EOPNOTSUPP),
    "io": (vram.IO, errno.EOPNOTSUPP),
}


def cases(suite: Suite, ways: dict[str, tuple], importer: str) -> None:
    """`ways` by name: who registers, and how. Loads the exporter and unloads it; leaves the importer as it was."""
    shell(f"insmod {EXPORTER}")
    log, control = kmsg.Log(), Control()
    for name, (device, register) in ways.items():
        check = functools.partial(_check, suite, control, device, register)
        _dynamic(check, name)
        _in_mode(1, importer, lambda: _pinned(check, name))
        _in_mode(2, importer, lambda: _revocable(check, name))
        suite.check(f"{name}_exporters_errors_log_nothing_above_debug", lambda: same(_of_the_importer(log), []))
    control.close()
    log.close()
    shell("rmmod vram_exporter")


def _of_the_importer(log: kmsg.Log) -> list[str]:
    """The exporter tells of tables that are broken on purpose, and the kernel of modules."""
    return [text for text in log.above_debug() if not text.startswith("vram_exporter")]


def _dynamic(check: Callable, name: str) -> None:
    for what, (error, wanted) in ERRORS.items():
        check(f"{name}_attach_that_fails_with_{what}", functools.partial(_fault, vram.ATTACH, vram.FAIL, error), wanted)
        check(f"{name}_map_that_fails_with_{what}", functools.partial(_fault, vram.MAP, vram.FAIL, error), wanted)
    for what, (action, wanted) in TABLES.items():
        check(f"{name}_table_that_is_{what}", functools.partial(_fault, vram.MAP, action, 0), wanted)
    check(f"{name}_revoked_buffer", _revoke, errno.ENODEV)


def _pinned(check: Callable, name: str) -> None:
    for what, (error, wanted) in ERRORS.items():
        check(f"{name}_pin_that_fails_with_{what}", functools.partial(_fault, vram.PIN, vram.FAIL, error), wanted)
    check(f"{name}_pin_beyond_the_quota", _no_pins, errno.ENOSPC)
    check(f"{name}_pinned_where_only_revocable_is_taken", _nothing, errno.EOPNOTSUPP, vram.ONLY_REVOCABLE)


def _revocable(check: Callable, name: str) -> None:
    check(f"{name}_revocable_revoked_buffer", _revoke, errno.ENODEV)
    check(f"{name}_revocable_pin_beyond_the_quota", _no_pins, errno.ENOSPC)


def _in_mode(mode: int, importer: str, run: Callable[[], None]) -> None:
    """The importer is another one meanwhile."""
    shell(f"rmmod rdma_dmabuf && insmod {importer} mode={mode}")
    run()
    shell(f"rmmod rdma_dmabuf && insmod {importer}")


def _check(
    suite: Suite, control: Control, device, register, case: str, prepare: Callable[[Buffer], None], wanted: int, rules: int = 0
) -> None:
    suite.check(case, lambda: _refused_once(control, device, register, prepare, wanted, rules))


def _refused_once(control: Control, device, register, prepare: Callable[[Buffer], None], wanted: int, rules: int) -> None:
    def register_and_drop() -> None:
        device.dereg_mr(register(buffer.fd, 0, SIZE, 0, READ_WRITE))

    with control.create(SIZE, vram.UNEVEN, vram.SYSTEM, rules=rules) as buffer:
        prepare(buffer)
        refused(wanted, register_and_drop)
        stats = buffer.stats()
        for one, other in (("attaches", "detaches"), ("maps", "unmaps"), ("pins", "unpins")):
            same(stats[one], stats[other])
        same([stats[name] for name in ("mapped", "pinned", "breaches")], [0] * 3)


def _nothing(_: Buffer) -> None:
    pass


def _fault(op: int, action: int, error: int, buffer: Buffer) -> None:
    buffer.fault(op, action, 0, error)


def _revoke(buffer: Buffer) -> None:
    buffer.revoke()


def _no_pins(buffer: Buffer) -> None:
    buffer.call(vram.PIN_QUOTA_, 0)
