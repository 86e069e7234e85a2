#!/usr/bin/env python3
"""A program in another language, without C macros, opens a store and an agent: it uses the exported weft_*_init()
functions, and knows only the sizes of the structs. foreign.py libweft.so
"""
import ctypes
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(os.environ["WEFT_SOURCE"])
sys.path.insert(0, str(ROOT / "scripts"))
import public_headers  # noqa: E402

class Library:
    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.weft_last_error.restype = ctypes.c_char_p
        self.lib.weft_store_name.restype = ctypes.c_char_p

    def must(self, err, what):
        if err != 0:
            sys.exit(f"{what}: {err}: {self.lib.weft_last_error().decode()}")

    def initial(self, name, size, room=None):
        """A struct as bytes, initialised as one of `size` bytes; what lies behind stays as it was."""
        room = room or size
        struct = ctypes.create_string_buffer(b"\xff" * room, room)
        init = getattr(self.lib, f"{name}_init")
        init.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        init(struct, size)
        if int.from_bytes(struct.raw[:8], sys.byteorder) != size or struct.raw[size:] != b"\xff" * (room - size):
            sys.exit(f"{name}_init() does not write {size} bytes, of which the first 8 say so")
        return struct


def sizes_of(headers):
    """{struct: its size, and the place of each field}, as pin-structs.py has them."""
    names = [header.name for header in headers if header.structs]
    text = subprocess.run([ROOT / "scripts" / "pin-structs.py", *names], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True).stdout
    found = {}
    for line in text.splitlines():
        if line.startswith("PIN_SIZE(struct "):
            name, size = line[16:-2].split(", ")
            found[name] = {"": int(size)}
        elif line.startswith("PIN_FIELD(struct "):
            name, field, place = line[17:-2].split(", ")
            found[name][field] = int(place)
    return found


def put_pointer(struct, place, text, kept):
    kept.append(ctypes.create_string_buffer(text))
    struct[place:place + 8] = ctypes.addressof(kept[-1]).to_bytes(8, sys.byteorder)


def use_store(library, layouts):
    """A client, which does not connect yet, and a store of this process, in which a key is put and read."""
    store, lib, kept = ctypes.c_void_p(), library.lib, []
    layout = layouts["weft_store_options"]
    for size in (layout[""], layout[""] + 40):
        options = library.initial("weft_store_options", size)
        put_pointer(options, layout["endpoints"], b"http://127.0.0.1:1", kept)
        library.must(lib.weft_store_open(ctypes.byref(store), options), f"weft_store_open, {size} bytes")
        lib.weft_store_close(store)
    library.must(lib.weft_store_open_local(ctypes.byref(store)), "weft_store_open_local")
    if lib.weft_store_name(store) != b"local":
        sys.exit("the store inside the process has another name")
    library.must(lib.weft_store_put(store, b"/k", b"value", ctypes.c_size_t(5), ctypes.c_int64(0), None), "put")
    listing = ctypes.c_void_p()
    library.must(lib.weft_store_range(store, b"/k", False, 0, ctypes.byref(listing)), "range")
    kvs = ctypes.cast(listing.value + layouts["weft_store_list"]["kvs"], ctypes.POINTER(ctypes.c_void_p))[0]
    first = ctypes.cast(kvs, ctypes.POINTER(ctypes.c_void_p))[0]
    value = ctypes.cast(first + layouts["weft_store_kv"]["value"], ctypes.POINTER(ctypes.c_char_p))[0]
    if value != b"value":
        sys.exit(f"the key holds {value}")
    lib.weft_store_list_free(listing)
    return store


def use_agent(library, layouts, store):
    agent, lib, kept = ctypes.c_void_p(), library.lib, []
    layout = layouts["weft_agent_options"]
    options = library.initial("weft_agent_options", layout[""])
    put_pointer(options, layout["name"], b"foreign", kept)
    options[layout["store"]:layout["store"] + 8] = store.value.to_bytes(8, sys.byteorder)
    library.must(lib.weft_agent_open(ctypes.byref(agent), options), "weft_agent_open")
    lib.weft_agent_close(agent)


def main():
    library = Library(sys.argv[1])
    for name in ("weft_store_close", "weft_agent_close", "weft_store_list_free"):
        getattr(library.lib, name).argtypes = [ctypes.c_void_p]
    headers = public_headers.read(ROOT / "include")
    functions = {function.name for header in headers for function in header.functions}
    layouts = sizes_of(headers)
    initialised = [name for name in layouts if f"{name}_init" in functions]
    for name in initialised:
        for size in (8, layouts[name][""], layouts[name][""] + 64):
            library.initial(name, size, size + 64)
    library.lib.weft_store_range.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_bool, ctypes.c_uint32,
                                             ctypes.c_void_p]
    store = use_store(library, layouts)
    if "weft_agent_options_init" in functions:
        use_agent(library, layouts, store)
    library.lib.weft_store_close(store)
    print(f"{len(initialised)} structs are initialised by functions")


if __name__ == "__main__":
    main()
