#!/usr/bin/env python3
"""An iWARP host in plain TCP whose first capsule the kernel's siw loses sight of.

    lost_capsule.py ADDRESS PORT NQN PID

The target, process PID, is stopped while the capsule arrives: siw takes note of
what comes only once the connection is accepted, and then of what comes after it.
Prints when the target looked for the capsule and when it answered; ends with 0
when the Connect command succeeded. Framing: RFC 5044 (MPA), 5041 (DDP), 5040 (RDMAP).
"""
import os
import signal
import socket
import struct
import sys
import time
import uuid

REPLY_KEY = b"MPA ID Rep Frame"
REVISION_2_ENHANCED = 0x1002  # no CRC, no markers
READS = 16
DEPTH = 32
READ_REQUEST, READ_RESPONSE, SEND = 1, 2, 3


def exactly(connection, count):
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            sys.exit("the target closed the connection")
        data += piece
    return data


def mpa_request():
    cm = struct.pack("<HHHHH22x", 0, 0, DEPTH, DEPTH - 1, 0)
    data = struct.pack(">HH", READS, READS) + cm
    return b"MPA ID Req Frame" + struct.pack(">HH", REVISION_2_ENHANCED, len(data)) + data


def fpdu(ulpdu):
    padding = -(len(ulpdu) + 2) % 4
    return struct.pack(">H", len(ulpdu)) + ulpdu + bytes(padding + 4)  # the CRC is off


def read_fpdu(connection):
    length, = struct.unpack(">H", exactly(connection, 2))
    ulpdu = exactly(connection, length)
    exactly(connection, -(length + 2) % 4 + 4)
    return ulpdu


def connect_capsule(nqn):
    in_capsule = struct.pack("<QI3xB", 0, 1024, 0x01)
    command = struct.pack("<BBHB19x16sHHHBBI12x", 0x7F, 0x40, 0, 0x01, in_capsule,
                          0, 0, DEPTH - 1, 0, 0, 0)
    data = struct.pack("<16sH238x256s256s256x", uuid.uuid4().bytes, 0xFFFF, nqn.encode(),
                       f"nqn.2014-08.org.nvmexpress:uuid:{uuid.uuid4()}".encode())
    # DDP: last segment, untagged, version 1; RDMAP version 1; queue 0, first message.
    header = struct.pack(">BB4xIII", 0x41, 0x40 | SEND, 0, 1, 0)
    return fpdu(header + command + data)


def main():
    address, port, nqn, pid = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    connection = socket.create_connection((address, port), timeout=20)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    os.kill(pid, signal.SIGSTOP)
    try:
        connection.sendall(mpa_request())
        time.sleep(1)  # siw reads it, and would refuse more in the same go
        connection.sendall(connect_capsule(nqn))
        time.sleep(1)
    finally:
        os.kill(pid, signal.SIGCONT)

    reply = exactly(connection, 20)
    if not reply.startswith(REPLY_KEY):
        sys.exit(f"no MPA reply: {reply!r}")
    exactly(connection, struct.unpack(">H", reply[18:20])[0])
    started = time.monotonic()

    looked = False
    while True:
        ulpdu = read_fpdu(connection)
        after = time.monotonic() - started
        opcode = ulpdu[1] & 0xF
        if opcode == READ_REQUEST:
            sink, offset, size = struct.unpack(">IQI", ulpdu[18:34])
            print(f"looked for after {after:.3f} s, {size} bytes")
            if size != 0:
                sys.exit("a READ of more than nothing")
            looked = True
            connection.sendall(fpdu(struct.pack(">BBIQ", 0xC1, 0x40 | READ_RESPONSE, sink, offset)))
        elif opcode == SEND:
            status = struct.unpack("<H", ulpdu[18 + 14:18 + 16])[0] >> 1
            print(f"answered after {after:.3f} s, status {status:#x}")
            if not looked:
                sys.exit("the capsule was not lost")
            sys.exit(0 if status == 0 else 1)
        else:
            sys.exit(f"RDMAP opcode {opcode}")


if __name__ == "__main__":
    main()
