# SPDX-License-Identifier: GPL-2.0
"""What RDMA tells anybody about its devices and their objects, by netlink.

Numbers as in include/uapi/linux/netlink.h and include/uapi/rdma/rdma_netlink.h.
"""

from __future__ import annotations

import os
import socket
import struct

NETLINK_RDMA = 20
NLDEV = 5
GET, NEWLINK, DELLINK, MR_GET = 1, 3, 4, 13
REQUEST, ACK, DUMP = 0x1, 0x4, 0x300
ERROR, DONE = 2, 3
INDEX, NAME, NETDEV_NAME, LINK_TYPE = 1, 2, 51, 65
HEADER = struct.Struct("=IHHII")
ATTRIBUTE = struct.Struct("=HH")


def dump(command: int, attributes: bytes = b"") -> list[dict[int, bytes]]:
    """The attributes of each answer, those that hold others unopened. OSError with what the kernel says."""
    return _ask(command, DUMP, attributes)


def _ask(command: int, flags: int, attributes: bytes) -> list[dict[int, bytes]]:
    found = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_RDMA) as link:
        link.settimeout(20)
        header = HEADER.pack(HEADER.size + len(attributes), NLDEV << 10 | command, REQUEST | flags, 1, 0)
        link.sendto(header + attributes, (0, 0))
        while True:
            data = link.recv(1 << 16)
            while data:
                length, kind, *_ = HEADER.unpack_from(data)
                body, data = data[HEADER.size : length], data[(length + 3) & ~3 :]
                if kind in (ERROR, DONE):
                    error = -struct.unpack_from("=i", body)[0]
                    if error:
                        raise OSError(error, os.strerror(error))
                    return found
                found.append(_attributes(body))


def _attribute(kind: int, value: bytes) -> bytes:
    return ATTRIBUTE.pack(ATTRIBUTE.size + len(value), kind) + value + bytes(-len(value) % 4)


def _number(kind: int, value: int) -> bytes:
    return _attribute(kind, struct.pack("=I", value))


def _text(kind: int, value: str) -> bytes:
    return _attribute(kind, value.encode() + b"\0")


def _attributes(body: bytes) -> dict[int, bytes]:
    found = {}
    while len(body) >= ATTRIBUTE.size:
        length, kind = ATTRIBUTE.unpack_from(body)
        found[kind & 0x3FFF] = body[ATTRIBUTE.size : length]
        body = body[max(ATTRIBUTE.size, (length + 3) & ~3) :]
    return found


def devices() -> dict[str, int]:
    """The number of each device, by its name."""
    return {found[NAME].rstrip(b"\0").decode(): struct.unpack("=I", found[INDEX])[0] for found in dump(GET)}


def regions(index: int) -> list[dict[int, bytes]]:
    """The MRs of the device of that number."""
    return dump(MR_GET, _number(INDEX, index))


def add_rxe(device: str, netdev: str) -> None:
    """As `rdma link add`, of which a process of its own is most of the time."""
    _ask(NEWLINK, ACK, _text(NAME, device) + _text(LINK_TYPE, "rxe") + _text(NETDEV_NAME, netdev))


def delete(device: str) -> None:
    """As `rdma link delete`."""
    _ask(DELLINK, ACK, _number(INDEX, devices()[device]))
