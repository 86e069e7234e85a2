"""What another user of the host can get from a run: this user may look, connect, and place links in its path."""

import base64
import contextlib
import encodings.idna  # noqa: F401 - before another user, who may not find it, connects
import http.client
import json
import os
import pathlib
import shlex
import ssl
import stat
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import uuid

from tool import SKIPPED, WEFT, Run, environment_of, free_port, main, need_own_arguments, ranks_of, wait_for

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from another_user import NOBODY, as_nobody  # noqa: E402

PLAN = [[0, 1], [0, 1, 2, 3]]
TOKEN = "token-" + uuid.uuid4().hex  # of this test alone: others run beside it
LONG = ["--iterations", 2000]


def need_root():
    if os.geteuid() != 0:
        print("skipped: to be another user wants root")
        sys.exit(SKIPPED)


# --- the store ---

def ask(port, path, body, token=None):
    """One request to the store at this port, by TLS if it speaks that; returns status and answer."""
    headers = {"Authorization": "Bearer " + token} if token else {}
    context = ssl._create_unverified_context()
    for scheme in ("https", "http"):
        request = urllib.request.Request(f"{scheme}://127.0.0.1:{port}{path}", json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=20, context=context) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, {}
        except (urllib.error.URLError, http.client.HTTPException, OSError):
            continue
    return 0, {}


def coded(text):
    return base64.b64encode(text.encode()).decode()


def all_keys(port, prefix, token=None):
    status, answer = ask(port, "/v3/kv/range", {"key": coded(prefix), "range_end": coded(prefix[:-1] + "0"),
                                                "keys_only": True}, token)
    return status, [base64.b64decode(kv["key"]).decode() for kv in answer.get("kvs", [])]


def listening_ports():
    """Of this host, as every user finds them."""
    ports = set()
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A":
            ports.add(int(fields[1].split(":")[1], 16))
    return ports


def attack(job, port):
    """Runs a stranger's attempts; returns what was read, and the status of each request."""
    assert port in listening_ports(), "the port is there to be found"
    status, keys = all_keys(port, f"/weft/{job}/")
    tried = [status]
    for key in [key for key in keys if "/launch/" in key] or [f"/weft/{job}/run"]:
        tried.append(ask(port, "/v3/kv/deleterange", {"key": coded(key)})[0])
    runs = {key.split("/launch/")[0] for key in keys if "/launch/" in key} or {f"/weft/{job}/x"}
    failure = coded(json.dumps({"status": 4, "error": "nobody was here"}))
    for key in runs:
        tried.append(ask(port, "/v3/kv/put", {"key": coded(key + "/fail/agent-0"), "value": failure})[0])
    return {"keys": keys, "statuses": tried}


def a_stranger_gets_nothing_of_the_store():
    need_root()
    port = free_port()
    with Run(*LONG, "--store-port", port, plan=PLAN) as run:
        wait_for("phase 0", lambda: "-> start phase 0" in run.text())
        got = as_nobody(lambda: attack(run.job, port))
        assert not got["keys"] and set(got["statuses"]) <= {0, 401, 403}, got
        run.expect(0)
        assert run.results()["passed"]


# --- what other processes and files show ---

def processes_that_show(token):
    """Environments and command lines with the token in them."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        for name in ("environ", "cmdline"):
            with contextlib.suppress(OSError):
                if token.encode() in (entry / name).read_bytes():
                    found.append(f"{entry}/{name}: " + (entry / "cmdline").read_text().replace("\0", " "))
    return found


def files_that_show(token, directory):
    return [str(file) for file in directory.rglob("*") if file.is_file() and token.encode() in file.read_bytes()]


def expect_unseen(run, token):
    """Of a run that has ranks and goes on, then to its end."""
    wait_for("ranks", lambda: len(ranks_of(run.job)) >= 2)
    found = processes_that_show(token)
    assert not found, found
    run.expect(0)
    found = files_that_show(token, run.directory)
    assert not found, found
    for form in ("text", "json", "csv"):
        report = subprocess.run([WEFT, "report", run.path, "-f", form], capture_output=True, text=True, check=True)
        assert token not in report.stdout + report.stderr, report


def a_token_is_seen_in_no_process_and_no_file():
    need_own_arguments()
    for arguments, environment in (([], {"WEFT_TOKEN": TOKEN}), (["--token", TOKEN], {}), (["--token=" + TOKEN], {})):
        with Run(*LONG, *arguments, plan=PLAN, environment={"WEFT_LOG": "debug", **environment}) as run:
            expect_unseen(run, TOKEN)


def a_token_of_a_failed_run_is_in_no_file():
    """The token is also not in the report of a rank that was killed from outside."""
    with Run("--iterations", 100000, plan=PLAN, environment={"WEFT_TOKEN": TOKEN, "WEFT_LOG": "debug"}) as run:
        pids = wait_for("ranks", lambda: ranks_of(run.job))
        wait_for("phase 0", lambda: "-> start phase 0" in run.text())
        os.kill(pids[0], 11)
        assert run.wait() == 5, run.text()
        assert not files_that_show(TOKEN, run.directory)


def the_source_of_a_wrong_token_is_named():
    with tempfile.TemporaryDirectory(prefix="weft-test-") as name:
        file, empty = pathlib.Path(name, "token"), pathlib.Path(name, "empty")
        file.write_text(TOKEN + "\n")
        empty.touch(0o600)
        for mode in (0o644, 0o640, 0o604):
            file.chmod(mode)
            for arguments, environment, word in ((["--token-file", file], {}, "--token-file"),
                                                 ([], {"WEFT_TOKEN_FILE": str(file)}, "WEFT_TOKEN_FILE")):
                with Run(*arguments, plan=[[0]], environment=environment) as run:
                    run.expect(2)
                    assert word in run.text() and "chmod 600" in run.text(), run.text()
                    assert TOKEN not in run.text()
        for path, word in ((empty, "holds no usable secret"), (pathlib.Path(name, "none"), "cannot open")):
            with Run("--token-file", path, plan=[[0]]) as run:
                assert run.wait() in (2, 3) and word in run.text(), run.text()
        file.chmod(0o600)
        with Run(plan=[[0]], environment={"WEFT_TOKEN_FILE": str(file), "WEFT_TOKEN": "other"}) as run:
            run.expect(2)
            assert "more than one of" in run.text(), run.text()


def agents_meet_by_token_files():
    with tempfile.TemporaryDirectory(prefix="weft-test-") as name:
        file, port = pathlib.Path(name, "token"), free_port()
        file.touch(0o600)
        file.write_text(TOKEN + "\n")
        with Run(*LONG, "--num-agents", 2, "--num-processes", 2, "--store-port", port, plan=PLAN,
                 environment={"WEFT_TOKEN_FILE": str(file), "WEFT_TOKEN": ""}) as lead:
            with Run("--rank-server", f"127.0.0.1:{port}", "--num-processes", 2, "--token-file", file, job=lead.job,
                     environment={"WEFT_TOKEN": ""}) as follower:
                expect_unseen(lead, TOKEN)
                follower.expect(0)
                assert not files_that_show(TOKEN, follower.directory)


def the_command_that_the_lead_shows_starts_the_other_agent():
    """As it is typed. It stands on the terminal and in no file of the run."""
    need_own_arguments()
    with Run(*LONG, "--num-agents", 2, "--num-processes", 2, "--store-port", free_port(), plan=PLAN, terminal=True,
             environment={"WEFT_TOKEN": ""}) as lead:
        def shown():
            return [line.strip() for line in lead.text().splitlines() if line.startswith("WEFT_TOKEN=")]
        wait_for("the command", shown)
        command, = shown()
        token = command.split()[0].removeprefix("WEFT_TOKEN=")
        assert len(token) == 32 and shlex.split(command)[1:3] == ["weft", "elastic"], command
        with tempfile.TemporaryDirectory(prefix="weft-test-") as name:
            env = environment_of(lead.job, [], {"PATH": f"{pathlib.Path(WEFT).parent}:{os.environ['PATH']}"})
            other = subprocess.Popen(["bash", "-c", command], env=env, cwd=name, stdout=subprocess.PIPE,
                                     stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
            wait_for("ranks of both", lambda: len(ranks_of(lead.job)) == 4)
            found = [line for line in processes_that_show(token) if "bash -c" not in line]
            assert not found, found
            said = other.communicate()[0].decode()
            assert other.returncode == 0, said
            lead.expect(0)
            assert list(pathlib.Path(name).glob("weft-run/*/rank-*.log")), said
            assert not files_that_show(token, lead.path) and not files_that_show(token, pathlib.Path(name))


# --- files ---

@contextlib.contextmanager
def place():
    """A directory, and a file beside it that the run is not to touch."""
    with tempfile.TemporaryDirectory(prefix="weft-test-") as name:
        directory, victim = pathlib.Path(name, "run"), pathlib.Path(name, "victim")
        directory.mkdir(mode=0o700)
        victim.write_text("precious")
        yield directory, victim
        assert victim.read_text() == "precious", victim.read_text()


def run_in(directory, status, *words):
    """A run that is to be refused; returns what it said."""
    with Run("--run-dir", directory, plan=[[0]]) as run:
        got = run.wait(60)
        text = run.text()
        assert got == status and all(word in text for word in words), (got, text)
        run.expect_nothing_left()


def another_users_directory_is_refused():
    need_root()
    with place() as (directory, victim):
        (directory / "config.json").symlink_to(victim)
        (directory / "rank-0.log").symlink_to(victim)
        os.chown(directory, NOBODY, NOBODY)
        run_in(directory, 2, f"belongs to user {NOBODY}", "of your own")
        assert sorted(file.name for file in directory.iterdir()) == ["config.json", "rank-0.log"]


def links_in_the_directory_are_not_followed():
    for name in ("config.json", "host.json", "plan.json", "rank-0.log"):
        with place() as (directory, victim):
            (directory / name).symlink_to(victim)
            run_in(directory, 3, name, "want another run directory" if name != "rank-0.log" else "cannot open the log")
            assert (directory / name).is_symlink()


def second_names_of_files_are_not_written_to():
    for name in ("config.json", "host.json", "plan.json", "rank-0.log"):
        with place() as (directory, victim):
            (directory / name).hardlink_to(victim)
            run_in(directory, 3, name, "want another run directory")


def fifos_are_not_waited_for():
    for name in ("events.jsonl", "config.json", "host.json", "rank-0.log"):
        with place() as (directory, _):
            os.mkfifo(directory / name, 0o600)
            run_in(directory, 3, name if name != "events.jsonl" else "holds a run already")
            assert stat.S_ISFIFO(os.lstat(directory / name).st_mode)
    with place() as (directory, _):
        os.mkfifo(directory / "results.json", 0o600)
        told = subprocess.run([WEFT, "report", directory], capture_output=True, text=True, check=False, timeout=60)
        assert told.returncode == 3 and "not a regular file" in told.stderr, told


def a_directory_that_others_may_write_to_is_refused():
    with place() as (directory, _):
        for mode in (0o777, 0o775, 0o1777):
            directory.chmod(mode)
            run_in(directory, 2, "others may write", "chmod go-w")
        directory.chmod(0o777)
        run_in(directory / "below", 2, "sticky", "chmod o-w")
        directory.chmod(0o1777)
        with Run("--run-dir", directory / "below", plan=[[0]]) as run:
            run.expect(0)
        assert not list(directory.glob("*.json*"))


def what_a_run_leaves_is_its_users():
    with Run(plan=PLAN) as run:
        run.expect(0)
        assert stat.S_IMODE(run.path.stat().st_mode) == 0o700
        modes = {file.name: oct(stat.S_IMODE(file.stat().st_mode)) for file in run.path.iterdir()}
        assert set(modes.values()) == {"0o600"}, modes


# --- terminals ---

def words_of_others_do_nothing_to_the_terminal():
    """An agent with the token lies: its host name and its reason to fail contain codes that clear a screen."""
    bad = "\x1b[2J\x07\u009b2J\rowned"
    for what in ("host", "error"):
        port = free_port()
        with Run("--num-agents", 2, "--store-port", port, plan=[[0, 1]], terminal=True,
                 environment={"WEFT_TOKEN": TOKEN}) as run:
            def live():
                return [key for key in all_keys(port, f"/weft/{run.job}/", TOKEN)[1] if key.endswith("/agent/0")]
            prefix = wait_for("the run", live)[0].removesuffix("agent/0")
            told = {"host": bad, "slots": 0} if what == "host" else {"status": 3, "error": bad}
            key = coded(prefix + ("agent/1" if what == "host" else "fail/agent-1"))
            assert ask(port, "/v3/kv/put", {"key": key, "value": coded(json.dumps(told))}, TOKEN)[0] == 200
            if what == "host":
                ask(port, "/v3/kv/deleterange", {"key": key}, TOKEN)
            assert run.wait() != 0
            wait_for("what it says", lambda: "owned" in run.text())
            forms = [subprocess.run([WEFT, "report", run.path, "-f", form], capture_output=True, check=True).stdout
                     for form in ("text", "json", "csv")]
            shown = pathlib.Path(run.errors.name).read_bytes().replace(b"\r\x1b[K", b"")  # the progress line's own
            for text in [shown, pathlib.Path(run.output.name).read_bytes(), *forms]:
                text = text.decode().replace("\r\n", "\n")
                assert not set(text) & {"\x1b", "\x07", "\u009b", "\r"}, (what, text)


main({test.__name__: test for test in (
    a_stranger_gets_nothing_of_the_store,
    a_token_is_seen_in_no_process_and_no_file,
    a_token_of_a_failed_run_is_in_no_file,
    the_source_of_a_wrong_token_is_named,
    agents_meet_by_token_files,
    the_command_that_the_lead_shows_starts_the_other_agent,
    another_users_directory_is_refused,
    links_in_the_directory_are_not_followed,
    second_names_of_files_are_not_written_to,
    fifos_are_not_waited_for,
    a_directory_that_others_may_write_to_is_refused,
    what_a_run_leaves_is_its_users,
    words_of_others_do_nothing_to_the_terminal,
)}, at_once=3)
