#!/usr/bin/env python3
"""metrics.py PROGRAM: an agent serves its metrics as valid OpenMetrics 1.0, with the right numbers.

If prometheus_client is installed, its parser has to agree.
"""
import http.client
import os
import resource
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from openmetrics import read, value  # noqa: E402

TIME_TO_SPEAK_S = 5
def fetch(port, path="/metrics", method="GET", data=None, bearer=None):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method, data=data)
    if bearer is not None:
        request.add_header("Authorization", bearer)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, None, ""


def check_values(families, other):
    def series(name, **labels):
        return value(families, name, "_total", transport="shm", **labels)
    assert series("weft_transfers", peer="b", op="write") == 3
    assert series("weft_transfers", peer="b", op="read") == 2
    assert series("weft_transfer_bytes", peer="b", op="write") == 300
    assert series("weft_transfer_errors", peer="b", op="write") == 0
    assert series("weft_transfers", peer="", op="write") == 1  # what the one that left had
    assert series("weft_transfers", peer="gone", op="write") is None
    assert value(families, "weft_transfer_seconds", "_count", transport="shm", peer="b", op="write") == 3
    assert value(families, "weft_notifications_sent", "_total", peer="b") == 1
    assert value(families, "weft_peers") == 1
    assert families["weft_transfer_bytes"]["UNIT"] == "bytes"
    names = [dict(labels)["name"] for _, labels in families["weft_agent"]["values"]]
    assert names == ['a "quoted\\name"'], names
    labels = {"peer": 'a "quoted\\name"', "transport": "shm", "op": "read"}
    assert value(other, "weft_transfer_cancels", "_total", **labels) == 1
    assert value(other, "weft_transfer_errors", "_total", **labels) == 1
    assert value(other, "weft_transfers", "_total", **labels) == 8
    bucket = {le: value(other, "weft_transfer_seconds", "_bucket", le=le, **labels)
              for le in ("2.56e-07", "5.12e-07", "34.3597384", "+Inf")}
    assert list(bucket.values()) == [3, 5, 6, 8], bucket
    assert value(other, "weft_notifications_taken", "_total", peer=labels["peer"]) == 1


def check_bearer(port, bearer):
    """A caller without the bearer token learns only that the token is missing."""
    assert fetch(port)[0] == 401
    wrong = ["", "Bearer ", f"Bearer {bearer[:-1]}", f"Bearer {bearer}0", f"Bearer {'0' * 64}", f"bearer {bearer}",
             f"Basic {bearer}", bearer, "Bearer a token"]
    assert [fetch(port, bearer=text)[0] for text in wrong] == [401] * len(wrong)
    assert fetch(port, "/", bearer="Bearer x")[0] == 401
    status, _, text = fetch(port, bearer=f"Bearer {bearer}")
    assert status == 200 and 'name="guarded"' in text, status


def few_descriptors():
    """As a process has them that nobody has given more."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def check_late(port, bearer):
    """A caller that connects and sends its request after a hundred silent callers is still served."""
    for _ in range(20):  # a busy machine may take longer
        began = time.monotonic()
        late = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        late.connect()
        silent = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(100)]
        assert fetch(port, bearer=f"Bearer {bearer}")[0] == 200  # behind all of them
        try:
            late.request("GET", "/metrics", headers={"Authorization": f"Bearer {bearer}"})
            served = late.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            served = False
        in_time = time.monotonic() - began < TIME_TO_SPEAK_S
        for connection in [late, *silent]:
            connection.close()
        if served or in_time:
            break
    assert served, "a caller was cut off before its time to speak was over"


def check_silent(program, port, bearer):
    """A thousand callers that say nothing, or not enough: scrapes and the agents go on, and descriptors are few."""
    silent = []
    for i in range(1000):
        silent.append(socket.create_connection(("127.0.0.1", port), timeout=60))
        if i % 3:
            silent[-1].sendall(b"GET /metrics HTTP/1.1\r\n"[:i % 24])
    descriptors = len(os.listdir(f"/proc/{program.pid}/fd"))
    for _ in range(20):
        assert fetch(port, bearer=f"Bearer {bearer}")[0] == 200
        program.stdin.write("n")
        program.stdin.flush()
        assert program.stdout.readline() == "heard\n"
    assert descriptors < 200, f"{descriptors} descriptors"
    for connection in silent:
        connection.close()


def check(ports):
    status, kind, text = fetch(ports[0])
    assert status == 200 and kind == "application/openmetrics-text; version=1.0.0; charset=utf-8", (status, kind)
    other = fetch(ports[1])[2]
    check_values(read(text), read(other))
    assert fetch(ports[0], "/")[0] == 404
    assert fetch(ports[0], method="POST", data=b"x" * 100000)[0] == 405
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(fetch(ports[0])[0])) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [200] * 20, answers
    try:
        from prometheus_client.openmetrics.parser import text_string_to_metric_families
    except ImportError:
        return "by this reader"
    assert len(list(text_string_to_metric_families(text))) == len(read(text))
    assert len(list(text_string_to_metric_families(other))) == len(read(other))
    return "by this reader and prometheus_client"


def main():
    broken = ["", "# EOF", "# TYPE a counter\na 1\n# EOF\n", "# TYPE a counter\na_total 1\na_total 1\n# EOF\n",
              "a 1\n# EOF\n", '# TYPE a gauge\na{b="\n"} 1\n# EOF\n', "# TYPE a gauge\na one\n# EOF\n",
              '# TYPE a histogram\na_bucket{le="1"} 2\na_bucket{le="+Inf"} 1\na_count 1\na_sum 1\n# EOF\n',
              "# TYPE a gauge\n# UNIT a seconds\na 1\n# EOF\n"]
    for text in broken:  # the reader refuses what is wrong
        try:
            read(text)
        except AssertionError:
            continue
        sys.exit(f"took {text!r}")
    program = subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               preexec_fn=few_descriptors)
    ports = [program.stdout.readline().strip() for _ in range(4)]
    if not all(ports):
        program.stdin.close()
        status = program.wait(60)
        print("skipped: this build has no libmicrohttpd" if status == 77 else "the program failed")
        sys.exit(status)
    try:
        how = check(ports)
        check_bearer(*ports[2:])
        check_late(*ports[2:])
        check_silent(program, *ports[2:])
        check_silent(program, ports[0], "")
    finally:
        program.stdin.close()
        status = program.wait(60)
    if status != 0:
        sys.exit(f"the program exits with {status}")
    print("read", how)


if __name__ == "__main__":
    main()
