#!/usr/bin/env python3
"""Writes host_p4d.xml, host_p5en.xml, host_p6_b200.xml and host_p6_b300.xml, in hwloc's format 2, into this folder.

They are machines of Amazon EC2 with eight GPUs, of the types p4d.24xlarge, p5en.48xlarge, p6-b200.48xlarge and
p6-b300.48xlarge. The tables below contain what hwloc 2.10 recorded on one machine of each type: processors and their
memory, the devices of each bridge, PCI addresses, classes and ids, link speeds, names in the system, states of ports.
The tables omit caches, ports of switches with nothing below, link speeds of bridges, and the system's names of GPUs.
The captures are published with aws-ofi-nccl, in tests/unit/fixtures/topology.
"""
import collections

import make_hosts

Kind = collections.namedtuple("Kind", "pci speed names state", defaults=[None])

BLOCK, NETWORK, RDMA = 0, 2, 3  # hwloc's types of devices of the system
ACTIVE = 4

# Elastic Network Adapter, Elastic Fabric Adapter, the functions of a ConnectX-7 through which the host manages the
# NVSwitches, and the display of the console. {0} is the bus, as the system's names have it, {1} the device.
ENA = Kind("0200 [1d0f:ec20] [1d0f:ec20] 00", 31.507692, [(NETWORK, "enp{0}s0")])
ENA_P4D = ENA._replace(speed=0, names=[(NETWORK, "ens{2}")])
ENA_P6 = ENA._replace(speed=63.015385)
EFA_P4D = Kind("0200 [1d0f:efa0] [1d0f:efa0] 00", 0, [(RDMA, "rdmap{0}s{1}")], ACTIVE)
EFA_P5 = EFA_P4D._replace(pci="0200 [1d0f:efa2] [1d0f:efa2] 00", speed=31.507692)
EFA_P6 = EFA_P4D._replace(pci="0200 [1d0f:efa3] [1d0f:efa3] 00", speed=63.015385)
CX7_B200 = Kind("0207 [15b3:1021] [15b3:0087] 00", 3.938462, [(NETWORK, "ibp{0}s0f0"), (RDMA, "ibp{0}s0f0")], ACTIVE)
CX7_B300 = CX7_B200._replace(pci="0207 [15b3:1021] [15b3:1113] 00", speed=1.969231)
A100 = Kind("0302 [10de:20b0] [10de:134f] a1", 31.507692, [])
H200 = Kind("0302 [10de:2335] [10de:18be] a1", 63.015385, [])
B200 = Kind("0302 [10de:2901] [10de:1999] a1", 63.015385, [])
B300 = Kind("0302 [10de:3182] [10de:20e6] a1", 126.030769, [])
NVSWITCH_A100 = Kind("0680 [10de:1af1] [10de:13b8] a1", 1.969231, [])
NVSWITCH_H200 = Kind("0680 [10de:22a3] [10de:1796] a1", 3.938462, [])
DISPLAY = Kind("0300 [1d0f:1111] [0000:0000] 00", 0, [])
SSD = Kind("0108 [1d0f:cd01] [1d0f:0000] 00", 15.753846, [(BLOCK, "nvme{2}n1")])
SSD_P4D = SSD._replace(speed=0)
SSD_B200 = SSD._replace(speed=31.507692)
SSD_B300 = SSD._replace(speed=63.015385)

# A host bridge with its devices directly below: (device, kind, number in the name).
Flat = collections.namedtuple("Flat", "bus devices")
# A host bridge with a root port, and below it a switch, each of whose ports is a bus: (bus, kind, number in the name).
Switch = collections.namedtuple("Switch", "first last devices")


def p4d(bus, ena, slot, ssds):
    """The devices of two GPUs; the first of them is device 0 on one bus and 1 on the others."""
    return Flat(bus, [(ena, ENA_P4D, slot), (0x1b, EFA_P4D, 0), (0x1c, A100, 0), (0x1d, A100, 0),
                      (0x1e, SSD_P4D, ssds[0]), (0x1f, SSD_P4D, ssds[1])])


def p5en(first, ena, ssds):
    """A switch with two GPUs: two buses of its own, and 22 ports."""
    return Switch(first, first + 0x18, [(first + ena + i, ENA, 0) for i in range(4)] +
                  [(first + 0x11 + i, EFA_P5, 0) for i in range(4)] + [(first + 0x15, H200, 0), (first + 0x16, H200, 0),
                   (first + 0x17, SSD, ssds[0]), (first + 0x18, SSD, ssds[1])])


def b200(first, ena, efa, middle, ssds):
    """A switch with two GPUs. One such switch also has the functions that manage the NVSwitches."""
    kinds = [EFA_P6, EFA_P6] + middle + [B200, B200]
    ssd = first + efa + len(kinds)
    return Switch(first, ssd + 1, [(first + ena, ENA_P6, 0), (first + ena + 1, ENA_P6, 0)] +
                  [(first + efa + i, kind, 0) for i, kind in enumerate(kinds)] +
                  [(ssd, SSD_B200, ssds[0]), (ssd + 1, SSD_B200, ssds[1])])


def b300(first, ssd):
    """A switch with one GPU."""
    return Switch(first, first + 0xe, [(first + 0xb, EFA_P6, 0), (first + 0xc, EFA_P6, 0), (first + 0xd, B300, 0),
                                       (first + 0xe, SSD_B300, ssd)])


# Name, cores of a package, and for each package: bytes of memory, host bridges. Devices of no package are last.
HOSTS = [
    ("p4d", 24, [(602206875648, [p4d(0x10, 0, 32, (1, 4)), p4d(0x20, 1, 65, (5, 7))]),
                 (602313527296, [Flat(0x80, [(0x1a + i, NVSWITCH_A100, 0) for i in range(6)]),
                                 p4d(0x90, 1, 129, (2, 3)), p4d(0xa0, 1, 161, (6, 8))])],
     [Flat(0x00, [(3, DISPLAY, 0)])]),
    ("p5en", 48, [(1073701388288, [Flat(0x00, [(3, DISPLAY, 0)]), p5en(0x44, 3, (2, 5)), p5en(0x5d, 3, (7, 8))]),
                  (1073721737216, [p5en(0x76, 4, (1, 3)), p5en(0x8f, 3, (4, 6)),
                                   Switch(0xa8, 0xae, [(0xab + i, NVSWITCH_H200, 0) for i in range(4)])])], []),
    ("p6_b200", 48, [(1071588651008, [b200(0x44, 3, 0xb, [], (1, 5)), b200(0x55, 3, 0xb, [], (7, 8))]),
                     (1071608815616, [b200(0x66, 4, 0xb, [CX7_B200, CX7_B200], (2, 3)),
                                      b200(0x79, 3, 0xb, [], (4, 6))])], []),
    ("p6_b300", 48, [(2153854590976, [Switch(0x44, 0x4a, [(0x47, ENA_P6, 0)])] +
                      [b300(first, ssd) for first, ssd in ((0x4b, 3), (0x5a, 4), (0x69, 6), (0x78, 8))]),
                     (2153871765504,
                      [b300(first, ssd) for first, ssd in ((0x87, 1), (0x96, 2), (0xa5, 5), (0xb4, 7))] +
                      [Switch(0xc3, 0xc7, [(0xc6, CX7_B300, 0), (0xc7, CX7_B300, 0)])])], []),
]


def words(mask):
    """A set of bits in the form of hwloc: words of 32 bits, the highest first; a word of zero is empty."""
    parts = []
    while mask:
        parts.insert(0, f"0x{mask & 0xffffffff:x}" if mask & 0xffffffff or not parts else "")
        mask >>= 32
    return ",".join(parts)


def sets(cpus, nodes):
    return {"cpuset": words(cpus), "complete_cpuset": words(cpus), "nodeset": words(nodes),
            "complete_nodeset": words(nodes)}


class Recorded(make_hosts.Host):
    def pci(self, depth, bus, device, kind, number):
        self.object(depth, "PCIDev", close=not kind.names, pci_busid=f"0000:{bus:02x}:{device:02x}.0",
                    pci_type=kind.pci, pci_link_speed=f"{kind.speed:.6f}")
        for osdev_type, name in kind.names:
            stated = kind.state is not None and osdev_type == RDMA
            self.object(depth + 1, "OSDev", close=not stated, name=name.format(bus, device, number),
                        osdev_type=osdev_type)
            if stated:
                self.add(depth + 2, "info", close=True, name="Port1State", value=kind.state)
                self.end(depth + 1)
        if kind.names:
            self.end(depth)

    def port(self, depth, place, buses, inside):
        """A port of a switch, or a root port: a bridge at `place`, with the buses below it."""
        self.object(depth, "Bridge", bridge_type="1-1", depth=depth - self.top,
                    pci_type="0604 [1d0f:0200] [1d0f:0200] 00", bridge_pci=f"0000:[{buses[0]:02x}-{buses[1]:02x}]",
                    pci_busid=f"0000:{place}")
        inside(depth + 1)
        self.end(depth)

    def below_switch(self, depth, switch):
        for bus, kind, number in switch.devices:
            port = bus - switch.first - 3
            self.port(depth, f"{switch.first + 2:02x}:{port // 8:02x}.{port % 8}", (bus, bus),
                      lambda at, bus=bus, kind=kind, number=number: self.pci(at, bus, 0, kind, number))

    def bridge_of_host(self, depth, part):
        self.top = depth
        if isinstance(part, Flat):
            self.host_bridge(depth, (part.bus, part.bus),
                             lambda at: [self.pci(at, part.bus, *device) for device in part.devices])
            return
        self.host_bridge(depth, (part.first, part.last), lambda at: self.port(
            at, f"{part.first:02x}:00.0", (part.first + 1, part.last), lambda deeper: self.port(
                deeper, f"{part.first + 1:02x}:00.0", (part.first + 2, part.last),
                lambda ports: self.below_switch(ports, part))))

    def socket(self, number, cores, every, memory, parts):
        """Each core has two threads. The numbers of all second threads follow those of all first threads."""
        threads = ((1 << cores) - 1) << number * cores
        own = sets(threads | threads << every, 1 << number)
        self.object(2, "Package", os_index=number, **own)
        self.object(3, "NUMANode", close=True, os_index=number, **own, local_memory=memory)
        for core in range(cores):
            first = 1 << number * cores + core
            self.object(3, "Core", os_index=core, **sets(first | first << every, 1 << number))
            for thread in (first, first << every):
                self.object(4, "PU", close=True, os_index=thread.bit_length() - 1, **sets(thread, 1 << number))
            self.end(3)
        for part in parts:
            self.bridge_of_host(3, part)
        self.end(2)

    def record(self, name, cores, packages, others):
        every = cores * len(packages)
        all_of_it = sets((1 << 2 * every) - 1, (1 << len(packages)) - 1)
        self.object(1, "Machine", os_index=0, **all_of_it, allowed_cpuset=all_of_it["cpuset"],
                    allowed_nodeset=all_of_it["nodeset"])
        for number, (memory, parts) in enumerate(packages):
            self.socket(number, cores, every, memory, parts)
        for part in others:
            self.bridge_of_host(2, part)
        self.end(1)
        self.save(name)


if __name__ == "__main__":
    for host in HOSTS:
        Recorded().record(*host)
