#!/usr/bin/env python3
"""A stranger speaks UCX's protocol to every port of a target that did not choose UCX, and cannot write to its memory.

UCX's TCP takes the address to write to from the message (docs/known-faults.md)."""
import ipaddress
import os
import re
import socket
import struct
import sys
import time
import unittest

import tool
from p2p_sides import target

MAGIC = struct.pack("<Q", 0xCAFEBABE12345678)  # with which a connection of UCX's TCP begins
PUT_REQUEST = 33  # number of its message that says where the bytes behind it belong
WRITTEN = b"BY A STRANGER..!"
MORE = 64  # bytes that do not come: then UCX does not answer yet


def listening(pid):
    """Addresses and ports at which the process listens, IPv4 and IPv6."""
    sockets = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{name}"))
        if found:
            sockets.add(found[1])
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{table}", encoding="ascii") as lines:
            for words in (line.split() for line in list(lines)[1:]):
                address, port = words[1].split(":")
                if words[3] == "0A" and words[9] in sockets:
                    raw = bytes.fromhex(address)  # words of four bytes, as this processor orders them
                    raw = b"".join(raw[i:i + 4][::-1] if sys.byteorder == "little" else raw[i:i + 4]
                                   for i in range(0, len(raw), 4))
                    yield str(ipaddress.ip_address(raw)), int(port, 16)


def unused(pid):
    """An address that nobody uses: the end of the last page of the program's own data."""
    with open(f"/proc/{pid}/maps", encoding="ascii", errors="replace") as maps:
        lines = [line.split() for line in maps]
    data = [line for line in lines if line[1] == "rw-p" and line[-1] == os.path.realpath(tool.WEFT)]
    return int(data[-1][0].split("-")[1], 16) - 2 * len(WRITTEN)


def memory(pid, address):
    with open(f"/proc/{pid}/mem", "rb") as bytes_:
        bytes_.seek(address)
        return bytes_.read(len(WRITTEN))


def lie(place, address):
    """Connects and asks for bytes to be written there; the connection, or None."""
    body = struct.pack("<QQI", address, len(WRITTEN) + MORE, 1)
    try:
        connection = socket.create_connection(place, timeout=5)
        connection.sendall(MAGIC + struct.pack("<BI", PUT_REQUEST, len(body)) + body + WRITTEN)
        return connection
    except OSError:  # it does not even take that
        return None


class Strangers(tool.ToolTest):
    def test_no_port_of_a_default_target_writes_where_a_stranger_says(self):
        for name in ("UCX_TLS", "UCX_NET_DEVICES"):  # nobody says that the network is trusted
            os.environ.pop(name, None)
        with target("--forever") as (process, _):
            address = unused(process.pid)
            before = memory(process.pid, address)
            places = list(listening(process.pid))
            self.assertTrue(places)
            connections = [lie(place, address) for place in places]
            deadline = time.monotonic() + 1  # a target of UCX writes within a millisecond
            while time.monotonic() < deadline:
                self.assertEqual(memory(process.pid, address), before, f"a stranger wrote by one of {places}")
                self.assertIsNone(process.poll())
                time.sleep(0.05)
            for connection in filter(None, connections):
                connection.close()
            self.assertIsNone(process.poll())


if __name__ == "__main__":
    unittest.main()
