"""Free TCP ports of 127.0.0.1, each for one test program alone.

A program marks its ports by sockets in the abstract namespace, whose names contain the port. While the program lives,
no other program takes these ports. Tests in C (wait.c) check these sockets, too, but make none.
"""
import contextlib
import pathlib
import random
import socket

FIRST, AT_LEAST = 10000, 1000
held = []  # the sockets that mark this program's ports


def is_free(port):
    with contextlib.suppress(OSError), socket.socket() as listener:
        listener.bind(("127.0.0.1", port))
        return True
    return False


def hold(port):
    """Marks the port for this program. False: another program, or this one, has it already."""
    mark = socket.socket(socket.AF_UNIX)
    try:
        mark.bind(f"\0weft-test-port-{port}")
    except OSError:
        mark.close()
        return False
    held.append(mark)
    return True


def free_ports(count, within=range(FIRST, 65536)):
    """The first of `count` consecutive ports. They are below the ports of outgoing connections, since such a connection
    may take any of those."""
    first_outgoing = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    end = min(within.stop, max(first_outgoing, within.start + AT_LEAST))
    while True:
        first = random.randrange(within.start, end - count)
        if all(hold(port) and is_free(port) for port in range(first, first + count)):
            return first


def free_port():
    return free_ports(1)
