"""Input that cannot run is refused with a clear error and the right exit status, and nothing is left behind."""

import contextlib
import pathlib
import socket
import ssl
import subprocess
import tempfile
import threading

from tool import WEFT, Run, free_port, main


def refused(status, *words, plan=None, **arguments):
    options = [text for name, value in arguments.items() for text in ("--" + name.replace("_", "-"), value)]
    with Run(*options, plan=plan) as run:
        run.expect(status)
        for word in words:
            assert word in run.text(), (word, run.text())
        assert "Traceback" not in run.text()
        return run.path.exists()


def malformed_plans():
    for text in ("", "[", "{}", "[]", "[[]]", "[[0, true]]", "[[0, 1.5]]", '[["0"]]', "[[0, null]]", "[[0, 0]]",
                 "[[0, 1], [0, 1, -1]]", "[[0, 1], [0, -2]]", "[[0, -1]]", "[[0, 9999999999]]", "[[0], 1]"):
        refused(2, "weft elastic", plan=text)


def more_live_ranks_than_slots():
    refused(2, "4 process slots", "8 live ranks", plan=[[0, 1, 2, 3], list(range(8))], num_processes=4, num_agents=1)


def an_unwritable_run_directory():
    with Run(plan=[[0]]) as run:
        run.expect(0)
        assert "1 rank, 1 join" in run.text(), run.text()
        blocked = run.directory / "file"
        blocked.write_text("")
        result = subprocess.run([WEFT, "elastic", "--run-dir", blocked / "run", run.directory / "plan.json"],
                                capture_output=True, text=True, check=False)
        assert result.returncode == 3 and str(blocked) in result.stderr and "--run-dir" in result.stderr, result


def a_run_directory_that_holds_a_run():
    with Run(plan=[[0]]) as run:
        run.expect(0)
        before = {file: file.read_bytes() for file in run.path.iterdir()}
        result = subprocess.run(run.process.args, capture_output=True, text=True, check=False)
        assert result.returncode == 3 and "holds a run already" in result.stderr, result
        assert before == {file: file.read_bytes() for file in run.path.iterdir()}


def a_run_directory_with_results_of_something_else():
    with tempfile.TemporaryDirectory(prefix="weft-test-") as name:
        file = pathlib.Path(name, "results.json")
        file.write_text("mine")
        result = subprocess.run([WEFT, "elastic", "--run-dir", name], capture_output=True, text=True, check=False)
        assert result.returncode == 3 and "has a results.json already" in result.stderr, result
        assert [file] == list(pathlib.Path(name).iterdir()) and file.read_text() == "mine"


def a_port_in_use():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        left = refused(3, str(port), plan=[[0]], store_port=port)
    assert not left, "a run that did not begin has left its directory"


def a_few_descriptors():
    with tempfile.TemporaryDirectory(prefix="weft-test-") as name:
        pathlib.Path(name, "plan.json").write_text("[[0]]")
        for limit in (12, 16, 18):
            limited = ["bash", "-c", f"ulimit -n {limit}; exec \"$@\"", "bash", WEFT, "elastic", "plan.json"]
            result = subprocess.run(limited, cwd=name, capture_output=True, text=True, check=False)
            assert result.returncode == 3 and "(raise ulimit -n)" in result.stderr, (limit, result)


def an_unreachable_store():
    port = free_port()
    refused(3, f"127.0.0.1:{port}", plan=[[0]], store=f"http://127.0.0.1:{port}")


def a_lead_that_never_comes():
    port = free_port()
    refused(3, f"127.0.0.1:{port}", "within 1 s", rank_server=f"127.0.0.1:{port}", startup_timeout=1)


def agents_that_never_come():
    refused(124, "1 of 2 agents", plan=[[0]], num_agents=2, startup_timeout=1, store_port=free_port())


def a_wrong_token():
    port = free_port()
    with Run("--num-agents", 2, "--store-port", port, plan=[[0]], environment={"WEFT_TOKEN": "right"}) as lead:
        with Run("--rank-server", f"127.0.0.1:{port}", job=lead.job, environment={"WEFT_TOKEN": "wrong"}) as other:
            status = other.wait()
            assert status == 3, other.text()
            assert "token" in other.text().lower(), other.text()
        lead.process.terminate()
        lead.expect(143)


def certificate(directory, name):
    """A key and a certificate of its own for 127.0.0.1."""
    key, cert = directory / (name + ".key"), directory / (name + ".pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-subj", "/CN=" + name, "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key,
                    "-out", cert], check=True, capture_output=True)
    return key, cert


def a_missing_client_certificate():
    with tempfile.TemporaryDirectory(prefix="weft-test-") as name:
        directory = pathlib.Path(name)
        key, cert = certificate(directory, "server")
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(cert, key)
            context.load_verify_locations(certificate(directory, "authority")[1])
            context.verify_mode = ssl.CERT_REQUIRED
            context.minimum_version = context.maximum_version = version
            with socket.create_server(("127.0.0.1", 0)) as listener:
                threading.Thread(target=shake_hands, args=(listener, context), daemon=True).start()
                url = f"https://127.0.0.1:{listener.getsockname()[1]}"
                refused(3, url, "requires a client certificate", "one with its key", plan=[[0]], store=url, ca=cert)


def shake_hands(listener, context):
    """Until the listener is closed. What a client sent is read before its connection is closed: a reset would overtake
    the alert that says why."""
    while True:
        try:
            connection = listener.accept()[0]
        except OSError:
            return
        with contextlib.suppress(OSError), \
                context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False) as stream:
            try:
                stream.do_handshake()
            finally:
                stream.shutdown(socket.SHUT_WR)  # the stream is no longer TLS after this
                stream.settimeout(5)
                while stream.recv(4096):
                    pass


def an_unknown_log_level():
    with Run(plan=[[0]], environment={"WEFT_LOG": "loud"}) as run:
        run.expect(2)
        assert 'WEFT_LOG: "loud" is none of error, warn, info, debug' in run.text(), run.text()


def a_token_that_the_others_cannot_learn():
    """Nor is a run without token begun for them."""
    for more, word in (([], "no terminal"), (["--quiet"], "--quiet"), (["--listen", "0.0.0.0"], "no terminal")):
        with Run("--num-agents", 2, "--store-port", free_port(), *more, plan=[[0]],
                 environment={"WEFT_TOKEN": ""}) as run:
            run.expect(2)
            assert "token" in run.text() and word in run.text() and "--token-file" in run.text(), run.text()
            assert not run.path.exists()


def a_follower_without_token():
    with Run("--rank-server", f"127.0.0.1:{free_port()}", environment={"WEFT_TOKEN": ""}) as run:
        run.expect(2)
        assert "without a token" in run.text() and "--token-file" in run.text(), run.text()


def a_bad_job_name():
    with Run(plan=[[0]], job="a/b") as run:
        assert run.wait() == 2 and "a/b" in run.text()


def a_rank_by_hand():
    result = subprocess.run([WEFT, "rank"], capture_output=True, text=True, check=False)
    assert result.returncode == 2 and "weft elastic" in result.stderr, result


main({test.__name__: test for test in (
    malformed_plans, more_live_ranks_than_slots, an_unwritable_run_directory, a_run_directory_that_holds_a_run,
    a_run_directory_with_results_of_something_else,
    a_port_in_use, a_few_descriptors, an_unreachable_store,
    a_lead_that_never_comes, agents_that_never_come, a_wrong_token, a_missing_client_certificate,
    an_unknown_log_level, a_token_that_the_others_cannot_learn, a_follower_without_token, a_bad_job_name,
    a_rank_by_hand)})
