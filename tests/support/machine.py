"""Whether a program is made for another machine type than Python, so that an emulator runs it."""
import os
import sys


def machine_of(file):
    """The machine type of an ELF file, its field e_machine."""
    with open(os.path.realpath(file), "rb") as binary:
        head = binary.read(20)
    assert head[:4] == b"\x7fELF", f"{file} is no ELF file"
    return int.from_bytes(head[18:20], "little" if head[5] == 1 else "big")


def is_emulated(file):
    return machine_of(file) != machine_of(sys.executable)
