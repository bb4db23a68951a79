# SPDX-License-Identifier: GPL-2.0
"""Reports G to M: what ends while something is under way, limits, keys, and errors that pass."""

from __future__ import annotations

import errno
import functools
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import kernel
import network
import size
import uverbs
import vram
from endpoint import Endpoint
from exporter_mr import pattern
from expect import in_child, refused, same, shell, wait
from keylife import Living
from local import Local
from network import End
from pyverbs import enums
from pyverbs.mr import MR
from pyverbs.pyverbs_error import PyverbsRDMAError
from reports_files import MIB, buffer, region
from sources import View
from traffic import Traffic
from uverbs import PAGE
from vram import Control

ONE = End("rdma-rep1", "rep1", "198.51.100.61", "rxe_rep1")
OTHER = End("rdma-rep2", "rep2", "198.51.100.62", "rxe_rep2")
NOBODY = 65534


def _joined(test: Callable[[], None]) -> None:
    """Between two namespaces, made for it."""
    network.join(ONE, OTHER)
    try:
        test()
    finally:
        network.part(ONE, OTHER)


def h5_queue_pairs_go_while_they_try_again(_: Local, __: Control) -> None:
    """Every fifth packet is lost; the queue pair goes while its timer runs, and its region after it."""

    def rounds() -> None:
        for end in (ONE, OTHER):
            shell(f"tc -n {end.namespace} qdisc add dev {end.netdev} root netem loss 20%")
        ours, theirs = Endpoint(ONE.device, ONE.address, 256), Endpoint(OTHER.device, OTHER.address)
        with buffer(16 * PAGE) as (fd, _):
            for number in range(size.of(40, 1000)):
                mrs = [endpoint.register(fd, 16 * PAGE) for endpoint in (ours, theirs)]
                pair = (ours.queue_pair(), theirs.queue_pair())
                pair[0].to_rts(ours.attributes(OTHER.address, pair[1].qp_num))
                pair[1].to_rts(theirs.attributes(ONE.address, pair[0].qp_num))
                for _ in range(4):
                    ours.transfer(pair[0], enums.IBV_WR_RDMA_WRITE, (0, 8 * PAGE, mrs[0].lkey), 0, mrs[1].rkey)
                # From amid the packets to after the first time-out.
                time.sleep(0.002 * (number % 50))
                for qp, endpoint, mr in zip(pair, (ours, theirs), mrs):
                    qp.close()
                    endpoint.verbs.dereg_mr(mr)
                ours.drain()
        for endpoint in (ours, theirs):
            endpoint.close()

    _joined(rounds)


def j1_one_side_or_both_are_killed(_: Local, __: Control) -> None:
    def rounds() -> None:
        for number in range(size.of(3, 500)):
            with Traffic(ONE, OTHER) as traffic:
                for side in ((traffic.requester,), (traffic.responder,), (traffic.requester, traffic.responder))[number % 3]:
                    side.process.kill()
            wait(lambda: kernel.regions() == [])

    _joined(rounds)


def j2_exporter_in_use_is_not_unloaded(local: Local, control: Control) -> None:
    with control.create(4 * PAGE) as made:
        mr = local.register(made.fd, 0, 4 * PAGE, 0)
    run = subprocess.run(["rmmod", "vram_exporter"], capture_output=True, text=True, check=False)
    same((run.returncode != 0, "in use" in run.stderr), (True, True))
    local.write(mr, 5, b"still there")
    local.verbs.dereg_mr(mr)


def j4_either_may_go_first(local: Local, _: Control) -> None:
    """The memory's own file and mapping, or the region."""
    before = kernel.buffers()
    for region_first in (False, True):
        fd = uverbs.udmabuf(4 * PAGE)
        view = View(fd, 4 * PAGE, False)
        mr = local.register(fd, 0, 4 * PAGE, 0)
        ends = [lambda view=view, fd=fd: (view.close(), os.close(fd)), functools.partial(local.verbs.dereg_mr, mr)]
        for end in reversed(ends) if region_first else ends:
            end()
        wait(lambda: kernel.buffers() == before)


def k1_dmabufs_are_not_charged_to_locked_memory(local: Local, _: Control) -> None:
    """As core's own importer has it: the exporter accounts for the memory. An ordinary MR is charged, and refused."""
    fd = uverbs.udmabuf(16 * MIB)
    same(in_child(functools.partial(_without_rights, local.here, fd)), 0)
    os.close(fd)


def _without_rights(here: End, fd: int) -> int:
    """In a process of its own: 0 if all was as it has to be, else a number that says what was not."""
    endpoint = Endpoint(here.device, here.address)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (64 << 10, 64 << 10))
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    before = _pinned()
    mr = endpoint.register(fd, 16 * MIB)
    if _pinned() != before:
        return 2
    try:
        MR(endpoint.pd, 16 * MIB, enums.IBV_ACCESS_LOCAL_WRITE)
        return 3
    except PyverbsRDMAError as error:
        if error.error_code != errno.ENOMEM:
            return 4
    endpoint.verbs.dereg_mr(mr)
    return 0 if _pinned() == before else 5


def _pinned() -> str:
    return next(line for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines() if line.startswith("VmPin"))


def k4_keys_are_unique_however_many_come(local: Local, _: Control) -> None:
    """A hundred stay alive meanwhile. The suite `keys` has more, and more than there are keys."""
    living = Living()
    with buffer(PAGE) as (fd, _):
        # The DMA API of the test kernel warns of memory that is mapped more than seven times.
        others = [uverbs.udmabuf(PAGE) for _ in range(25)]
        alive = [living.add(local.register(other, 0, PAGE, 0)) for other in others * 4]
        for _ in range(3000):
            local.verbs.dereg_mr(living.remove(living.add(local.register(fd, 0, PAGE, 0))))
        for mr in alive:
            local.write(mr, 7, b"alive")
            local.verbs.dereg_mr(mr)
        for other in others:
            os.close(other)


def l5_region_of_a_revoked_buffer_is_not_registered_anew(local: Local, control: Control) -> None:
    data = pattern(5, PAGE)
    with control.create(4 * PAGE) as made, region(local, made.fd, 0, 4 * PAGE, 0) as mr:
        for is_revoked in (False, True):
            if is_revoked:
                made.revoke()
            for flags in (uverbs.REREG_TRANS, uverbs.REREG_PD, uverbs.REREG_ACCESS, 7):
                refused(errno.EOPNOTSUPP, local.verbs.rereg_mr, mr, flags, uverbs.READ_WRITE)
        made.unrevoke()
        local.write(mr, 3, data)
        same(local.read(mr, 3, PAGE) == data, True)


def m3_failure_that_passes_is_not_remembered(local: Local, control: Control) -> None:
    """And has another errno than one that stays."""
    with control.create(4 * PAGE, placement=vram.SYSTEM) as made:
        made.fault(vram.MAP, vram.FAIL, 0, errno.EBUSY)
        refused(errno.EBUSY, local.register, made.fd, 0, 4 * PAGE, 0)
        local.verbs.dereg_mr(local.register(made.fd, 0, 4 * PAGE, 0))
        made.fault(vram.MAP, vram.IO)
        refused(errno.EOPNOTSUPP, local.register, made.fd, 0, 4 * PAGE, 0)
        local.verbs.dereg_mr(local.register(made.fd, 0, 4 * PAGE, 0))


def g1_ten_minutes_of_moves_and_revocations(_: Local, __: Control) -> None:
    words = ["rdmabuf", "stress", "--exporter", "vram", "--moves", "--revokes", "--duration", "10m", "--format", "json"]
    before = kernel.counters()
    run = subprocess.run(words, capture_output=True, text=True, check=False, timeout=900)
    print(run.stdout, run.stderr, file=sys.stderr)
    same((run.returncode, json.loads(run.stdout or "{}").get("faults")), (0, []))
    report, after = json.loads(run.stdout), kernel.counters()
    same((report["ok"], report["stopped_by"], report["registered"]), (True, None, report["deregistered"]))
    same(report["bytes_verified"] > 0, True)
    same((after["regions"], after["maps"] - before["maps"]), (0, after["unmaps"] - before["unmaps"]))


CASES = (
    h5_queue_pairs_go_while_they_try_again,
    j1_one_side_or_both_are_killed,
    j2_exporter_in_use_is_not_unloaded,
    j4_either_may_go_first,
    k1_dmabufs_are_not_charged_to_locked_memory,
    k4_keys_are_unique_however_many_come,
    l5_region_of_a_revoked_buffer_is_not_registered_anew,
    m3_failure_that_passes_is_not_remembered,
)
LONG_CASES = (g1_ten_minutes_of_moves_and_revocations,)
