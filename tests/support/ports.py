"""Free TCP ports of 127.0.0.1, each for one test program alone.

A port is no longer free for others when it was given out: a socket in the abstract namespace, whose name has the port,
says so for as long as the program lives. Tests in C (wait.c) look at these sockets, too, and make none.
"""
import contextlib
import pathlib
import random
import socket

FIRST, AT_LEAST = 10000, 1000
held = []  # the sockets that say so


def is_free(port):
    with contextlib.suppress(OSError), socket.socket() as listener:
        listener.bind(("127.0.0.1", port))
        return True
    return False


def hold(port):
    """Whether nobody else held it; then it is ours."""
    mark = socket.socket(socket.AF_UNIX)
    try:
        mark.bind(f"\0weft-test-port-{port}")
    except OSError:
        mark.close()
        return False
    held.append(mark)
    return True


def free_ports(count, within=range(FIRST, 65536)):
    """The first of so many that follow each other, below those of outgoing connections: one of these may take any of
    theirs."""
    first_outgoing = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    end = min(within.stop, max(first_outgoing, within.start + AT_LEAST))
    while True:
        first = random.randrange(within.start, end - count)
        if all(hold(port) and is_free(port) for port in range(first, first + count)):
            return first


def free_port():
    return free_ports(1)
