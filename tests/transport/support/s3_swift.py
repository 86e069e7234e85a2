#!/usr/bin/env python3
"""Runs a command beside a real S3 server: s3_swift.py COMMAND...

The server is OpenStack Swift with its S3 interface. All its parts run in one process, on free ports of 127.0.0.1, with
a bucket named "bucket". The command gets the server's address and keys in the environment variables of S3 clients.
scripts/install-deps.sh --test installs Swift into build/tools; without it this program exits with 77. Swift's files are
in a folder of $TMPDIR, which is removed.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import urllib.parse

import sigv4

TOOLS = pathlib.Path(__file__).resolve().parents[3] / "build/tools/bin/python"
USER, SECRET = "test:tester", "testing"

PROXY = """
[DEFAULT]
swift_dir = {home}
log_level = WARNING
[pipeline:main]
pipeline = catch_errors s3api tempauth slo proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
# All of it is one process, which may wait for its processor.
conn_timeout = 60
node_timeout = 60
recoverable_node_timeout = 60
error_suppression_limit = 1000000
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:s3api]
use = egg:swift#s3api
s3_acl = false
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = testing .admin
[filter:slo]
use = egg:swift#slo
"""

STORE = """
[DEFAULT]
devices = {home}/devices
mount_check = false
swift_dir = {home}
log_level = WARNING
[pipeline:main]
pipeline = {kind}-server
[app:{kind}-server]
use = egg:swift#{kind}
"""


def write_rings(home, ports):
    from swift.common.ring import RingBuilder

    for kind, port in ports.items():
        builder = RingBuilder(2, 1, 0)
        builder.add_dev({"id": 0, "region": 1, "zone": 1, "weight": 1.0, "ip": "127.0.0.1", "port": port,
                         "replication_ip": "127.0.0.1", "replication_port": port, "device": "disk"})
        builder.rebalance()
        builder.get_ring().save(f"{home}/{kind}.ring.gz")


def with_plain_key(app):
    """Decodes the access key in a request: curl 8.22 percent-encodes it, and Swift's keys have a colon."""
    def call(environ, start_response):
        named = environ.get("HTTP_AUTHORIZATION")
        if named:
            environ["HTTP_AUTHORIZATION"] = named.replace(urllib.parse.quote(USER, safe="") + "/", USER + "/", 1)
        return app(environ, start_response)
    return call


def serve(home):
    """Runs the server: it prints its port when it is ready, and ends when its standard input ends."""
    import eventlet

    eventlet.monkey_patch()
    from swift.common import utils

    utils.SWIFT_CONF_FILE = f"{home}/swift.conf"
    pathlib.Path(utils.SWIFT_CONF_FILE).write_text("[swift-hash]\nswift_hash_path_suffix = weft\n")
    utils.fsync = utils.fsync_dir = lambda *_: None  # no data has to outlive the server
    os.makedirs(f"{home}/devices/disk")
    listeners = {kind: eventlet.listen(("127.0.0.1", 0)) for kind in ("account", "container", "object", "proxy")}
    ports = {kind: listener.getsockname()[1] for kind, listener in listeners.items()}
    write_rings(home, {kind: port for kind, port in ports.items() if kind != "proxy"})
    from eventlet import wsgi
    from swift.common.wsgi import SwiftHttpProtocol, loadapp

    for kind, listener in listeners.items():
        conf = f"{home}/{kind}.conf"
        pathlib.Path(conf).write_text((PROXY if kind == "proxy" else STORE).format(home=home, kind=kind))
        app = loadapp(conf, global_conf={"log_name": kind})
        if kind == "proxy":
            app = with_plain_key(app)
        eventlet.spawn(wsgi.server, listener, app, log=open(f"{home}/{kind}.log", "w"), protocol=SwiftHttpProtocol)
    print(ports["proxy"], flush=True)
    eventlet.tpool.execute(sys.stdin.read)


def make_bucket(url):
    status, body = sigv4.request("PUT", f"{url}/bucket", USER, SECRET)
    if status != 200:
        sys.exit(f"s3_swift: the bucket could not be made: {status} {body.decode(errors='replace')}")


def have_swift():
    try:
        return subprocess.run([TOOLS, "-c", "import swift"], capture_output=True).returncode == 0
    except OSError:  # this Python does not exist, or this user may not run it
        return False


def main():
    if len(sys.argv) > 2 and sys.argv[1] == "--serve":
        return serve(sys.argv[2])
    if not have_swift():
        print("skipped: no Swift in build/tools (scripts/install-deps.sh --test installs it)")
        return 77
    home = tempfile.mkdtemp(prefix="weft-swift-")
    log = open(f"{home}/log", "w+")
    server = subprocess.Popen([TOOLS, __file__, "--serve", home], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=log, text=True)
    try:
        port = server.stdout.readline().strip()
        if not port:
            log.seek(0)
            sys.exit(f"s3_swift: Swift did not start: {log.read()[-2000:]}")
        url = f"http://127.0.0.1:{port}"
        make_bucket(url)
        return subprocess.run(sys.argv[1:], env=os.environ | {
            "AWS_ENDPOINT_URL": url, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": USER,
            "AWS_SECRET_ACCESS_KEY": SECRET, "NO_PROXY": "127.0.0.1"}).returncode
    finally:
        server.stdin.close()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
