#!/usr/bin/env python3
"""The chart's pods really run: podman starts them, each with its own address, and with the user and the rights that the
chart gives."""
import os
import signal
import subprocess

from chart import main
from cluster import Cluster, done, need, podman

SMALL = {"hidden-dim": 512, "iterations": 5, "num-tokens": 16}
LONG = {**SMALL, "iterations": 12000}  # phases of seconds: what happens in one has come before its end
FOUR = {"nodes": 4, "ranksPerNode": 2, "results": {"json": True}, "startupTimeoutSeconds": 120}
PAIR = {"nodes": 2, "ranksPerNode": 1, "startupTimeoutSeconds": 120}


def expect(cluster, names, status=0):
    """Waits for the ends of the pods; after a failure it shows what each has said, since one may wait for another."""
    try:
        for name in reversed(names):
            got = cluster.status(name)
            assert got == status, f"{name} ended with {got}"
    except AssertionError as failure:
        raise AssertionError("\n".join([str(failure), *(f"{name}: {cluster.log(name)}" for name in names)])) from None


def four_nodes_pass_a_classic_plan():
    """Workers come first, before the master's name is there."""
    with Cluster() as cluster:
        names = cluster.make("four", {**FOUR, "elastic": {"plan": "expansion_fault_rejoin", "options": SMALL}})
        cluster.start(*names)
        expect(cluster, names)
        results = cluster.results(names[-1])
        assert results["passed"] and len(results["phases"]) == 4
        hosts = {row["host"] for row in results["phases"][1]["ranks"]}
        assert len(hosts) == 4, hosts


def a_killed_pod_ends_the_run_by_name_and_the_next_run_passes():
    with Cluster() as cluster:
        plan = {"agents": "fixed", "plan": [[0, 1, 2]], "options": {**SMALL, "iterations": 1000000}}
        names = cluster.make("kill", {**FOUR, "nodes": 3, "ranksPerNode": 1, "elastic": plan})
        cluster.start(*names)
        cluster.wait_for(names[0], "-> start phase 0")
        podman("kill", f"{names[0]}-weft")
        assert cluster.status(names[0]) == 137
        assert cluster.status(names[-1]) == 5, cluster.log(names[-1])
        assert "lost" in cluster.results(names[-1])["error"], cluster.results(names[-1])["error"]
        for name in names:
            podman("pod", "rm", "-f", "-t", "0", name)
        plan["options"] = SMALL
        names = cluster.make("kill", {**FOUR, "nodes": 3, "ranksPerNode": 1, "elastic": plan})
        cluster.start(*names)
        expect(cluster, names)


def states(results, phase):
    return {row["rank"]: row["state"] for row in results["phases"][phase]["ranks"]}


def a_pod_that_is_killed_and_started_again_rejoins():
    """Its rank is lost in one phase, and back in the next one."""
    with Cluster() as cluster:
        plan = {"plan": [[0, 1, 2], [0, 1, 2], [0, 1, 2]], "options": LONG}
        names = cluster.make("back", {**FOUR, "nodes": 3, "ranksPerNode": 1, "elastic": plan})
        cluster.start(*names)
        cluster.wait_for(names[0], "-> start phase 1")
        podman("kill", f"{names[0]}-weft")
        assert cluster.status(names[0]) == 137
        cluster.start_successor(names[0])
        cluster.wait_for(names[-1], "phase 2 (3 of 3)")
        expect(cluster, names)
        results = cluster.results(names[-1])
        lost = [rank for rank, state in states(results, 1).items() if state == "lost"]
        assert results["passed"] and len(lost) == 1 and lost != [0], states(results, 1)
        assert set(states(results, 2).values()) == {"passed"}, states(results, 2)


def a_pod_that_is_deleted_leaves():
    """As Kubernetes deletes it: SIGTERM, and the time of grace. The plan needs its rank no longer after that."""
    for mode in ("job", "lws"):
        with Cluster() as cluster:
            # Together the two would need a minute. The rank that stays needs a second for what is left.
            plan = {"plan": [[0, 1], [0]], "options": {**SMALL, "iterations": 150000}}
            names = cluster.make("less" + mode, {**PAIR, "mode": mode, "results": {"json": True}, "elastic": plan})
            names.sort(key=lambda name: "master" in name)
            cluster.start(*names)
            cluster.wait_for(names[0], "-> start phase 0")
            podman("stop", "-t", "30", f"{names[0]}-weft")
            assert cluster.status(names[0]) == 0, cluster.log(names[0])
            assert "left: agent 1 of job" in cluster.log(names[0]), cluster.log(names[0])
            if mode == "lws":
                cluster.wait_for(names[-1], "weft ended with status 0; this pod stays")
                continue
            expect(cluster, names[-1:])
            assert states(cluster.results(names[-1]), 0) == {0: "passed", 1: "left"}


def weft_that_is_killed_in_a_pod_of_a_leaderworkerset_starts_again():
    with Cluster() as cluster:
        plan = {"plan": [[0, 1], [0, 1]], "options": LONG}
        names = cluster.make("again", {**PAIR, "mode": "lws", "elastic": plan})
        names.sort(key=lambda name: "master" in name)
        cluster.start(*names)
        cluster.wait_for(names[0], "-> start phase 0")
        podman("exec", f"{names[0]}-weft", "/bin/sh", "-c",
               "for p in /proc/[0-9]*; do read -r name <$p/comm; [ $name != weft ] || kill -9 ${p#/proc/}; done")
        for name in names:
            cluster.wait_for(name, "weft ended with status 0; this pod stays")
        assert "weft was ended by signal 9, and starts again" in cluster.log(names[0]), cluster.log(names[0])


def a_store_s_pod_that_is_restarted_costs_a_run_nothing():
    with Cluster() as cluster:
        token = {"token": {"existingSecret": ""}}
        store, = cluster.make("keep", {"job": "store", **token})
        cluster.start(store)
        secret = [e["value"] for e in cluster.environment(store) if e["name"] == "WEFT_TOKEN"][0]
        values = {**PAIR, "store": {"url": "https://weft-keep:2379"}, "env": {"WEFT_TOKEN": secret},
                  "elastic": {"plan": [[0, 1], [0, 1]], "options": {**SMALL, "iterations": 5000}}}
        names = cluster.make("user", values)
        cluster.start(*names)
        cluster.wait_for(names[-1], "-> start phase 0")
        os.kill(int(cluster.pid(store)), signal.SIGKILL)  # podman starts it again in the same pod, as its policy says
        expect(cluster, names)


def a_pod_that_is_cut_off_is_named():
    with Cluster() as cluster:
        plan = {"agents": "fixed", "plan": [[0, 1]], "options": {**SMALL, "iterations": 1000000}}
        names = cluster.make("cut", {**PAIR, "elastic": plan})
        cluster.start(*names)
        cluster.wait_for(names[0], "-> start phase 0")
        subprocess.run(["nsenter", "-t", cluster.pid(names[0]), "-n", "ip", "link", "set", "eth0", "down"], check=True)
        assert cluster.status(names[-1]) == 5, cluster.log(names[-1])
        assert "rank 1" in cluster.log(names[-1]) or "agent 1" in cluster.log(names[-1])
        assert cluster.status(names[0]) != 0


def the_other_jobs_pass():
    few = {"max-block-size": 65536, "num-iter": 160, "warmup-iter": 16, "check-consistency": True,
           "backend": "LIBFABRIC"}
    for job in ({"job": "bench", "bench": {"options": few}},
                {"job": "ep", "ep": {"options": {"iterations": 5, "warmup": 1, "hidden": 512, "check": True}}},
                {"job": "p2p", "p2p": {"options": {"buffer-sizes": [8, "64KB"], "iterations": 10}}}):
        with Cluster() as cluster:
            names = cluster.make("x" + job["job"], {**PAIR, **job})
            cluster.start(*names)
            expect(cluster, names)


def doctor_knows_the_way_between_pods():
    with Cluster() as cluster:
        names = cluster.make("doc", {**PAIR, "job": "doctor", "doctor": {"listenSeconds": 15}})
        cluster.start(*reversed(names))
        for name in names:
            assert cluster.status(name) in (0, 3), cluster.log(name)  # 3: this host has a problem, which it names
        assert "weft-master-doc" in cluster.log(names[0]), cluster.log(names[0])


def helm_test_s_pods_pass():
    with Cluster() as cluster:
        names = cluster.make("hook", {}, role="test")
        assert len(names) == 2
        cluster.start(*names)
        expect(cluster, names)


def a_pod_of_a_leaderworkerset_runs_once_and_stays():
    with Cluster() as cluster:
        names = cluster.make("lws", {**PAIR, "mode": "lws", "elastic": {"plan": [[0, 1]], "options": SMALL}})
        names.sort(key=lambda name: "master" in name)
        cluster.start(*names)
        for name in names:
            cluster.wait_for(name, "weft ended with status 0; this pod stays")
        podman("stop", "-t", "10", *[f"{name}-weft" for name in names])
        expect(cluster, names)


need()
try:
    main({test.__name__: test for test in (
        four_nodes_pass_a_classic_plan, a_killed_pod_ends_the_run_by_name_and_the_next_run_passes,
        a_pod_that_is_killed_and_started_again_rejoins, a_pod_that_is_deleted_leaves,
        weft_that_is_killed_in_a_pod_of_a_leaderworkerset_starts_again,
        a_store_s_pod_that_is_restarted_costs_a_run_nothing, a_pod_that_is_cut_off_is_named, the_other_jobs_pass,
        doctor_knows_the_way_between_pods, helm_test_s_pods_pass,
        a_pod_of_a_leaderworkerset_runs_once_and_stays)}, at_once=4)
finally:
    done()
