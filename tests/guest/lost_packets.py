# SPDX-License-Identifier: GPL-2.0
"""Two rxe devices on a link that loses packets, while the buffers at both ends move: all data is right in the end."""

from __future__ import annotations

from collections.abc import Callable

import network
from endpoint import ENDLESS, Endpoint
from expect import same, shell
from exporter_mr import pattern
from network import End
from pyverbs import enums
from vram import CHANGING, PAGE, SYSTEM, Control

ONE = End("rdma-lossy1", "lossy1", "198.51.100.1", "rxe_lossy1")
OTHER = End("rdma-lossy2", "lossy2", "198.51.100.2", "rxe_lossy2")
SIZE = 16 * PAGE
ROUNDS = 24
MOVES = 60
LOSS = "5%"
# What rxe counts when it had to do something again.
RETRIES = ("duplicate_request", "out_of_seq_request", "rcvd_seq_err", "completer_retry_err")


def cases(control: Control) -> dict[str, Callable[[], None]]:
    return {
        "lossy_link_is_joined": _join,
        "lossy_link_delivers_writes_and_reads_of_moving_buffers": lambda: _transfer(control),
        "lossy_link_is_taken_down": lambda: network.part(ONE, OTHER),
    }


def _join() -> None:
    network.join(ONE, OTHER)
    for end in (ONE, OTHER):
        shell(f"tc -n {end.namespace} qdisc add dev {end.netdev} root netem loss {LOSS}")


def _transfer(control: Control) -> None:
    ends = [Endpoint(end.device, end.address) for end in (ONE, OTHER)]
    pair = [end.queue_pair() for end in ends]
    for number, other in ((0, OTHER), (1, ONE)):
        pair[number].to_rts(ends[number].attributes(other.address, pair[1 - number].qp_num, tries=ENDLESS))
    with control.create(2 * SIZE, CHANGING, SYSTEM) as ours, control.create(SIZE, CHANGING, SYSTEM) as theirs:
        with ends[0].region(ours.fd, 2 * SIZE) as local, ends[1].region(theirs.fd, SIZE) as remote:
            for buffer in (ours, theirs):
                buffer.loop(MOVES, SYSTEM)
            for number in range(ROUNDS):
                data = pattern(number, SIZE)
                ours.write(0, data)
                for opcode, place in ((enums.IBV_WR_RDMA_WRITE, 0), (enums.IBV_WR_RDMA_READ, SIZE)):
                    ends[0].transfer(pair[0], opcode, (place, SIZE, local.lkey), 0, remote.rkey)
                    same(ends[0].completion().status, enums.IBV_WC_SUCCESS)
                same(theirs.read(0, SIZE) == data, True)
                same(ours.read(SIZE, SIZE) == data, True)
            for buffer in (ours, theirs):
                buffer.loop(0)
                stats = buffer.stats()
                same([stats[name] for name in ("breaches", "late_writes", "vram_late_writes")], [0] * 3)
                same(stats["moves"] > ROUNDS, True)
    counters = [network.link_counters(end.device) for end in (ONE, OTHER)]
    same(sum(counter[name] for counter in counters for name in RETRIES) > 0, True)
    for qp in pair:
        qp.close()
    for end in ends:
        end.close()
