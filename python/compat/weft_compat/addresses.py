"""The addresses of this host by which other hosts reach it."""

from __future__ import annotations

import fcntl
import ipaddress
import socket
import struct

_SIOCGIFFLAGS, _SIOCGIFADDR = 0x8913, 0x8915
"""ioctl requests for the flags and for the IPv4 address of an interface: netdevice(7)"""
_UP, _LOOPBACK, _RUNNING = 0x1, 0x8, 0x40

_MOST = 8
"""the largest number of addresses, since a caller tries one after the other"""


def _ask(interface: str, request: int) -> bytes:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        return fcntl.ioctl(any_socket, request, struct.pack("40s", interface.encode()[:15]))[16:24]


def of_interface(interface: str) -> list[str]:
    """The addresses of an interface: its IPv4 address, then its IPv6 addresses, without link-local ones."""
    found = []
    try:
        found.append(socket.inet_ntoa(_ask(interface, _SIOCGIFADDR)[4:8]))
    except OSError:  # there is no such interface, or it has no IPv4 address
        pass
    try:
        with open("/proc/net/if_inet6", encoding="ascii") as lines:
            for digits, _index, _prefix, scope, _flags, name in map(str.split, lines):
                if name == interface and scope != "20":
                    found.append(str(ipaddress.IPv6Address(int(digits, 16))))
    except OSError:  # a host without IPv6
        pass
    return found


def _leads_out(interface: str) -> bool:
    try:
        flags = int(struct.unpack("H", _ask(interface, _SIOCGIFFLAGS)[:2])[0])
    except OSError:  # the interface has just disappeared
        return False
    return flags & (_UP | _RUNNING | _LOOPBACK) == _UP | _RUNNING


def of_route(family: socket.AddressFamily = socket.AF_INET) -> list[str]:
    """The local address of the route to other networks; an empty list: there is no such route."""
    far = "192.0.2.1" if family == socket.AF_INET else "2001:db8::1"  # both are for documentation
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((far, 9))  # sends nothing: the kernel chooses the address that it would use
            return [str(probe.getsockname()[0])]
    except OSError:  # for instance an isolated network of a cluster
        return []


def of_host() -> list[str]:
    """The addresses of this host, the best one first: IPv4 before IPv6, and the address of the route to other networks
    before those of other interfaces. An empty list: this host has only loopback."""
    others = [one for _, name in socket.if_nameindex() if _leads_out(name) for one in of_interface(name)]
    found = [*of_route(), *(one for one in others if ":" not in one), *of_route(socket.AF_INET6), *others]
    return [one for one in dict.fromkeys(found) if not ipaddress.ip_address(one).is_loopback][:_MOST]
