# SPDX-License-Identifier: GPL-2.0
"""RoCEv2 packets of a reliable connection, made by hand, and a wire on which they are all that is said.

Formats as in the InfiniBand specification, volume 1, chapter 9 and annex A17; numbers as in include/rdma/ib_pack.h.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
import zlib
from typing import NamedTuple

SEND_ONLY = 0x04
WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_ONLY = 0x06, 0x07, 0x08, 0x0A
READ_REQUEST = 0x0C
READ_FIRST, READ_MIDDLE, READ_LAST, READ_ONLY = range(0x0D, 0x11)
ACKNOWLEDGE, ATOMIC_ACKNOWLEDGE = 0x11, 0x12
COMPARE_SWAP, FETCH_ADD = 0x13, 0x14
FLUSH, ATOMIC_WRITE = 0x1C, 0x1D

WITH_AETH = {READ_FIRST, READ_LAST, READ_ONLY, ACKNOWLEDGE, ATOMIC_ACKNOWLEDGE}
ACK = 0x1F
NAK_SEQUENCE, NAK_INVALID_REQUEST, NAK_REMOTE_ACCESS, NAK_REMOTE_OPERATION = range(0x60, 0x64)

PORT = 4791
PARTITION = 0xFFFF
PSNS = 1 << 24
LIMIT_S = 20
RECEIVE_BUFFER = 64 << 20

IP = "!BBHHHBBH4s4s"
UDP = "!HHHH"


class Reply(NamedTuple):
    """What the responder answered, with the fields that its opcode has."""

    opcode: int
    psn: int
    syndrome: int | None
    payload: bytes

    @property
    def original(self) -> int:
        """What was there before an atomic."""
        return struct.unpack("!Q", self.payload)[0]


def reth(address: int, rkey: int, length: int) -> bytes:
    """The extended header of WRITE, READ, ATOMIC WRITE and FLUSH."""
    return struct.pack("!QII", address % 2**64, rkey, length)


def atomic(address: int, rkey: int, swap_or_add: int, compare: int = 0) -> bytes:
    """The extended header of compare-and-swap and of fetch-and-add."""
    return struct.pack("!QIQQ", address % 2**64, rkey, swap_or_add % 2**64, compare)


def packet(source: str, destination: str, qpn: int, psn: int, opcode: int, headers: bytes = b"", payload: bytes = b"") -> bytes:
    """All of it from the IP header on; an acknowledgement is asked for."""
    pad = -len(payload) % 4
    transport = struct.pack("!BBHII", opcode, pad << 4, PARTITION, qpn, 1 << 31 | psn % PSNS) + headers + payload + bytes(pad)
    network = _network(source, destination, len(transport) + 4, masked=False)
    covered = _network(source, destination, len(transport) + 4, masked=True) + _masked(transport)
    if opcode == FLUSH:
        # rxe's table has no place for the payload of FLUSH, so that its ICRC goes over these bytes once more.
        covered += transport
    return network + transport + struct.pack("<I", zlib.crc32(bytes([0xFF] * 8) + covered))


def _network(source: str, destination: str, length: int, masked: bool) -> bytes:
    """IP and UDP. Masked: what may change on the way is all ones."""
    tos, ttl, checksum = (0xFF, 0xFF, 0xFFFF) if masked else (0, 64, 0)
    addresses = socket.inet_aton(source), socket.inet_aton(destination)
    udp = struct.pack(UDP, PORT, PORT, 8 + length, checksum)
    # The kernel fills in the IP header's checksum, and an identification that is 0.
    return struct.pack(IP, 0x45, tos, 28 + length, 1, 0, ttl, socket.IPPROTO_UDP, checksum, *addresses) + udp


def _masked(transport: bytes) -> bytes:
    """The reserved byte before the QP's number may change too."""
    return transport[:4] + b"\xff" + transport[5:]


class Wire:
    """The end of a link that has no RDMA device: sends packets by hand and hears what comes back."""

    def __init__(self, namespace: str, here: str, there: str) -> None:
        self.here, self.there = here, there
        # A socket stays in the namespace of the thread that opened it.
        opener = threading.Thread(target=self._open, args=(f"/run/netns/{namespace}",))
        opener.start()
        opener.join()
        self.ears.settimeout(LIMIT_S)

    def _open(self, namespace: str) -> None:
        with open(namespace, "rb") as file:
            os.setns(file.fileno(), os.CLONE_NEWNET)
        self.mouth = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
        self.ears = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        # As much as a long read brings: nothing is lost while nobody listens.
        self.ears.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_RCVBUFFORCE", 33), RECEIVE_BUFFER)
        self.ears.bind((self.here, PORT))

    def close(self) -> None:
        self.mouth.close()
        self.ears.close()

    def send(self, qpn: int, psn: int, opcode: int, headers: bytes = b"", payload: bytes = b"") -> None:
        self.mouth.sendto(packet(self.here, self.there, qpn, psn, opcode, headers, payload), (self.there, 0))

    def receive(self, qpn: int) -> Reply:
        """The next packet to that QP of ours; what others are still told is left out."""
        while True:
            try:
                data = self.ears.recv(65536)
            except TimeoutError:
                raise AssertionError("no answer") from None
            opcode, flags, _, to, psn = struct.unpack_from("!BBHII", data)
            if to == qpn:
                return _reply(opcode, psn % PSNS, data[12 : -4 - (flags >> 4 & 3)])


def _reply(opcode: int, psn: int, rest: bytes) -> Reply:
    if opcode not in WITH_AETH:
        return Reply(opcode, psn, None, rest)
    return Reply(opcode, psn, rest[0], rest[4:])
