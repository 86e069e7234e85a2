#!/usr/bin/env python3
"""Writes the machines of host_*.xml, in hwloc's format 2, into this folder.

They have the structure of servers with 8 GPUs (two processors, PCIe switches with two GPUs each, NICs on the switches
or on the processors), with four cores in each processor. They are not recorded from real hosts, so they name none. They
cover every case of the choice of NICs. The machines of recorded_hosts.py are real ones.
"""
import itertools
import pathlib

GPU = ("0302", "10de:2330", "10de:16c1")
NVSWITCH = ("0680", "10de:22a3", "10de:1796")
DISPLAY = ("0300", "1a03:2000", "1a03:2000")
NVME = ("0108", "144d:a80a", "144d:a801")
INFINIBAND = ("0207", "15b3:1021", "15b3:0041")
ETHERNET = ("0200", "15b3:101f", "15b3:0001")
CORES = 4  # of each processor


class Host:
    def __init__(self):
        self.numbers = itertools.count(1)
        self.lines = []
        self.packages = []

    def add(self, indent, tag, close=False, **attributes):
        text = " ".join(f'{name}="{value}"' for name, value in attributes.items())
        self.lines.append(f"{'  ' * indent}<{tag}{' ' + text if text else ''}{'/' if close else ''}>")

    def object(self, indent, kind, close=False, **attributes):
        self.add(indent, "object", close=close, type=kind, gp_index=next(self.numbers), **attributes)

    def end(self, depth):
        self.lines.append(f"{'  ' * depth}</object>")

    def device(self, depth, bus, device, names=(), state=None):
        kind, identity, subsystem = device
        self.object(depth, "PCIDev", pci_busid=f"0000:{bus:02x}:00.0",
                    pci_type=f"{kind} [{identity}] [{subsystem}] a1", pci_link_speed="63.015385")
        for osdev_type, name in names:
            self.object(depth + 1, "OSDev", close=state is None or osdev_type != 3, name=name, osdev_type=osdev_type)
            if state is not None and osdev_type == 3:
                self.add(depth + 2, "info", close=True, name="Port1State", value=state)
                self.end(depth + 1)
        self.end(depth)

    def bridge(self, depth, below, inside):
        """A PCI bridge whose buses are below[0] to below[1]."""
        self.object(depth, "Bridge", bridge_type="1-1", depth=depth - 4, pci_type="0604 [1000:c030] [1000:c030] b0",
                    bridge_pci=f"0000:[{below[0]:02x}-{below[1]:02x}]", pci_busid=f"0000:{below[0] - 1:02x}:01.0",
                    pci_link_speed="63.015385")
        inside(depth + 1)
        self.end(depth)

    def host_bridge(self, depth, buses, inside):
        self.object(depth, "Bridge", bridge_type="0-1", depth=0, bridge_pci=f"0000:[{buses[0]:02x}-{buses[1]:02x}]")
        inside(depth + 1)
        self.end(depth)

    def switch(self, depth, bus, parts):
        """A root port, and below it a switch with a separate port for each part."""
        def ports(deeper):
            for i, part in enumerate(parts):
                first = bus + 4 + 2 * i
                self.bridge(deeper, (first, first + 1), lambda at, part=part, first=first: part(at, first))
        self.bridge(depth, (bus + 2, bus + 0xf),
                    lambda at: self.bridge(at, (bus + 3, bus + 0xf), ports))

    def package(self, number, inside):
        mask, node = ((1 << CORES) - 1) << number * CORES, 1 << number
        sets = {"cpuset": f"0x{mask:08x}", "complete_cpuset": f"0x{mask:08x}", "nodeset": f"0x{node:08x}",
                "complete_nodeset": f"0x{node:08x}"}
        self.object(2, "Package", os_index=number, **sets)
        self.object(3, "NUMANode", os_index=number, **sets, local_memory=1 << 40)
        self.add(4, "page_type", close=True, size=4096, count=1 << 28)
        self.end(3)
        for core in range(number * CORES, (number + 1) * CORES):
            own = {**sets, "cpuset": f"0x{1 << core:08x}", "complete_cpuset": f"0x{1 << core:08x}"}
            self.object(3, "Core", os_index=core, **own)
            self.object(4, "PU", close=True, os_index=core, **own)
            self.end(3)
        inside(3)
        self.end(2)

    def write(self, name, packages):
        everything = (1 << CORES * len(packages)) - 1
        nodes = (1 << len(packages)) - 1
        self.object(1, "Machine", os_index=0, cpuset=f"0x{everything:08x}", complete_cpuset=f"0x{everything:08x}",
                    allowed_cpuset=f"0x{everything:08x}", nodeset=f"0x{nodes:08x}", complete_nodeset=f"0x{nodes:08x}",
                    allowed_nodeset=f"0x{nodes:08x}")
        for number, inside in enumerate(packages):
            self.package(number, inside)
        self.end(1)
        self.save(name)

    def save(self, name):
        head = ['<?xml version="1.0" encoding="UTF-8"?>', '<!DOCTYPE topology SYSTEM "hwloc2.dtd">',
                '<topology version="2.0">']
        tail = ["  <support name=\"discovery.pu\"/>", "  <support name=\"discovery.numa\"/>",
                "  <support name=\"discovery.numa_memory\"/>", "</topology>"]
        path = pathlib.Path(__file__).resolve().parents[1] / f"host_{name}.xml"
        path.write_text("\n".join(head + self.lines + tail) + "\n", encoding="utf-8")


def gpu(host):
    return lambda depth, bus: host.device(depth, bus, GPU)


def nic(host, number, state=4, layer=INFINIBAND):
    name = f"ib{number}" if layer is INFINIBAND else f"eth{number}"
    return lambda depth, bus: host.device(depth, bus, layer, [(2, name), (3, f"mlx5_{number}")], state)


def plain_nic(host, name):
    return lambda depth, bus: host.device(depth, bus, ETHERNET, [(2, name)])


def other(host, device, names=()):
    return lambda depth, bus: host.device(depth, bus, device, names)


def below(host, depth, bus, parts):
    """A host bridge with a switch."""
    host.host_bridge(depth, (bus, bus + 0xf), lambda at: host.switch(at, bus, parts))


def at_root(host, depth, bus, parts):
    """A host bridge with a root port for each part."""
    def inside(deeper):
        for i, part in enumerate(parts):
            first = bus + 1 + 2 * i
            host.bridge(deeper, (first, first + 1), lambda at, part=part, first=first: part(at, first))
    host.host_bridge(depth, (bus, bus + 0xf), inside)


def ten_nics():
    """Eight GPUs; each has a NIC on its switch, and two more NICs, for storage, are at the processors."""
    host = Host()

    def package(number):
        def inside(depth):
            for k in range(2):
                n = number * 5 + k * 2
                below(host, depth, 0x10 + number * 0x80 + k * 0x20,
                      [gpu(host), gpu(host), nic(host, n), nic(host, n + 1), other(host, NVSWITCH)])
            at_root(host, depth, 0x60 + number * 0x80,
                    [nic(host, number * 5 + 4, layer=ETHERNET), other(host, NVME, [(0, f"nvme{number}n1")]),
                     other(host, DISPLAY)])
        return inside
    host.write("10_nics", [package(0), package(1)])


def four_nics():
    """Eight GPUs; four NICs, one for each switch with two GPUs, each behind another switch and so one level deeper."""
    host = Host()

    def package(number):
        def inside(depth):
            for k in range(2):
                bus, n = 0x10 + number * 0x80 + k * 0x20, number * 2 + k
                deeper = lambda at, first, n=n: host.bridge(at, (first + 1, first + 1),
                                                            lambda d: nic(host, n)(d, first + 1))
                below(host, depth, bus, [gpu(host), gpu(host), deeper])
        return inside
    host.write("4_nics", [package(0), package(1)])


def nics_at_processors():
    """Eight GPUs; two NICs at each processor, one of them down, and a plain Ethernet NIC."""
    host = Host()

    def package(number):
        def inside(depth):
            for k in range(2):
                below(host, depth, 0x10 + number * 0x80 + k * 0x20, [gpu(host), gpu(host)])
            at_root(host, depth, 0x60 + number * 0x80,
                    [nic(host, number * 2), nic(host, number * 2 + 1, state=1 if number else 4),
                     plain_nic(host, f"eth{number}")])
        return inside
    host.write("nics_at_processors", [package(0), package(1)])


def no_nic():
    host = Host()

    def package(number):
        def inside(depth):
            for k in range(2):
                below(host, depth, 0x10 + number * 0x80 + k * 0x20, [gpu(host), gpu(host)])
        return inside
    host.write("no_nic", [package(0), package(1)])


def far_nic():
    """One GPU, and one NIC at the other processor."""
    host = Host()
    host.write("far_nic", [lambda depth: at_root(host, depth, 0x10, [gpu(host)]),
                           lambda depth: at_root(host, depth, 0x90, [nic(host, 0)])])


def sixteen_nics():
    """Four GPUs with four NICs each on their switch, at one processor."""
    host = Host()

    def inside(depth):
        for k in range(4):
            below(host, depth, 0x10 + k * 0x20, [gpu(host)] + [nic(host, 4 * k + i) for i in range(4)])
    host.write("16_nics", [inside])


if __name__ == "__main__":
    for make in (ten_nics, four_nics, nics_at_processors, no_nic, far_nic, sixteen_nics):
        make()
