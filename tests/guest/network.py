# SPDX-License-Identifier: GPL-2.0
"""Two network namespaces that a veth pair joins, with an rxe device in each or in one of them."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path
from typing import NamedTuple

from expect import shell, wait


class End(NamedTuple):
    """One end: its namespace, its network device, its address, and its rxe device if it has one."""

    namespace: str
    netdev: str
    address: str
    device: str | None = None


def join(one: End, other: End) -> None:
    """Makes all of it, and waits until the ends hear each other."""
    shell(f"ip link add {one.netdev} type veth peer name {other.netdev}")
    for end in (one, other):
        inside = f"ip -n {end.namespace}"
        shell(
            f"ip netns add {end.namespace} && ip link set {end.netdev} netns {end.namespace} && {inside} link set lo up"
            f" && {inside} addr add {end.address}/24 dev {end.netdev} && {inside} link set {end.netdev} up"
        )
        if end.device:
            add_device(end)
    ping = ["ip", "netns", "exec", one.namespace, "ping", "-c", "1", "-W", "1", other.address]
    wait(lambda: subprocess.run(ping, capture_output=True, check=False).returncode == 0)


def add_device(end: End) -> None:
    shell(f"ip netns exec {end.namespace} rdma link add {end.device} type rxe netdev {end.netdev}")
    wait(functools.partial(has_device, end))


def has_device(end: End) -> bool:
    return os.path.exists(f"/sys/class/infiniband/{end.device}")


def part(*ends: End) -> None:
    """Takes away what is left of it, in whatever state it is; the devices first, since they go with the pair otherwise."""
    for end in ends:
        if end.device and has_device(end):
            shell(f"rdma link delete {end.device}")
    for end in ends:
        if os.path.exists(f"/run/netns/{end.namespace}"):
            # The pair goes with either of its ends. A namespace by itself would take them along later.
            subprocess.run(["ip", "-n", end.namespace, "link", "delete", end.netdev], capture_output=True, check=False)
            shell(f"ip netns delete {end.namespace}")


def link_counters(device: str) -> dict[str, int]:
    """What rxe counts of a device, by name."""
    folder = Path(f"/sys/class/infiniband/{device}/ports/1/hw_counters")
    return {file.name: int(file.read_text(encoding="ascii")) for file in folder.iterdir() if file.name != "lifespan"}
