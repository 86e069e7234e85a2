#!/usr/bin/env python3
"""Programs and libraries of two versions: two_versions.py libweft.so

The headers of the next version (scripts/next-headers.py) have one field more in each struct with a size. The examples,
built with today's headers, run with a library that is built with the next ones; built with the next ones they run with
today's library, and where they set the new field they are refused with VERSION, which names its first byte.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(os.environ["WEFT_SOURCE"])
sys.path.insert(0, str(ROOT / "scripts"))
import public_headers  # noqa: E402

CC = os.environ.get("CC") or "cc"
# Examples with their arguments, and the headers whose calls they are for.
EXAMPLES = [("store_client", [], "store.h"), ("transfer", ["4096"], "agent.h"), ("ep_rank", ["1"], "ep.h")]
# Calls that read a struct: its header, what has to be set besides, and the call.
CALLS = {
    "weft_store_options": ("store.h", 'value.endpoints = "http://127.0.0.1:1";', "weft_store_open(&store, &value)"),
    "weft_store_server_options": ("store.h", "", "weft_store_server_start(&server, &value)"),
    "weft_store_txn": ("store.h", "", "weft_store_txn_commit(local, &value, &result)"),
    "weft_agent_options": ("agent.h", 'value.name = "one";', "weft_agent_open(&agent, &value)"),
    "weft_ep_options": ("ep.h", "value.store = local;", "weft_ep_open(&ep, &value, 1000)"),
}
HEAD = """#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

static int expect(const char *name, int err, size_t byte) {
  char word[32];
  snprintf(word, sizeof word, "byte %zu of", byte);
  if (err == WEFT_ERR_VERSION && strstr(weft_last_error(), word))
    return 0;
  printf("%s: %s: %s; that is not VERSION with '%s'\\n", name, weft_err_name(err), weft_last_error(), word);
  return 1;
}

int main(void) {
  weft_store_t *local, *store = NULL;
  weft_store_server_t *server = NULL;
  weft_agent_t *agent = NULL;
  weft_ep_t *ep = NULL;
  struct weft_store_txn_result *result = NULL;
  int wrong = weft_store_open_local(&local);
  (void)store, (void)server, (void)agent, (void)ep, (void)result;
"""


def asked(header):
    return header not in public_headers.NOT_YET


def build_library(work, headers):
    """The shared library alone, from this source tree with other public headers."""
    tree = pathlib.Path(work, "tree")
    tree.mkdir()
    for path in ROOT.iterdir():
        if path.name not in ("include", "build", ".git"):
            tree.joinpath(path.name).symlink_to(path)
    tree.joinpath("include").symlink_to(headers)
    environment = dict(os.environ, CCACHE_BASEDIR=str(work), CCACHE_NOHASHDIR="1")
    for command in (["cmake", "-G", "Ninja", "-S", tree, "-B", work / "build", "-DWEFT_TESTS=OFF", "-DWEFT_CUDA=OFF",
                     "-DCMAKE_BUILD_TYPE=None", "-DCMAKE_C_FLAGS=-O0 -w"],
                    ["cmake", "--build", work / "build", "--target", "weft_shared"]):
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stdout[-4000:] + done.stderr[-4000:])
    return work / "build" / "libweft.so"


def compile_program(source, headers, library, program):
    subprocess.run([CC, "-std=c17", "-D_GNU_SOURCE", "-I", headers, source, library, "-pthread", "-o", program],
                   check=True)


def run(program, arguments, library):
    environment = dict(os.environ, LD_LIBRARY_PATH=str(library.parent))
    done = subprocess.run([program, *arguments], env=environment, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def run_examples(work, name, headers, library):
    """Builds with the headers, and runs with the library."""
    for example, arguments, header in EXAMPLES:
        if not asked(header):
            continue
        program = work / f"{example}_{name}"
        compile_program(ROOT / "examples" / example / "main.c", headers, library, program)
        status, said = run(program, arguments, library)
        if status != 0 or "passed" not in said:
            sys.exit(f"{example}, {name}: status {status}: {said}")


def refusals():
    """A program that sets the new field of each struct that a call reads."""
    today = ROOT / "include"
    sizes = subprocess.run([ROOT / "scripts" / "pin-structs.py", *[h.name for h in public_headers.read(today)]],
                           env=dict(os.environ, WEFT_HEADERS=str(today)), stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, text=True).stdout
    lines = [HEAD]
    for name, (header, prepare, call) in CALLS.items():
        if asked(header):
            size = sizes.split(f"PIN_SIZE(struct {name}, ")[1].split(")")[0]
            lines.append(f"  {{ struct {name} value = {name.upper()}_INIT; {prepare} value.next_version = 1; "
                         f'wrong += expect("{name}", {call}, {size}); }}')
    return "\n".join([*lines, "  weft_store_close(local);", "  return wrong;", "}", ""])


def main():
    today, library = ROOT / "include", pathlib.Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        headers = work / "next"
        subprocess.run([ROOT / "scripts" / "next-headers.py", headers], check=True)
        later = build_library(work, headers)
        run_examples(work, "today_on_next", today, later)
        run_examples(work, "next_on_today", headers, library)
        source = work / "refusals.c"
        source.write_text(refusals(), encoding="utf-8")
        compile_program(source, headers, library, work / "refusals")
        status, said = run(work / "refusals", [], library)
        if status != 0:
            sys.exit(said)
        status, said = run(work / "refusals", [], later)  # which knows the field
        if status == 0:
            sys.exit("the next library refuses its own field: this check cannot fail")
    print("programs and libraries of two versions work together")


if __name__ == "__main__":
    main()
