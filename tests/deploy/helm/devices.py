#!/usr/bin/env python3
"""What a pod asks for: processors and memory for its ranks, GPUs and RDMA devices; and what is said without these."""
import json
import re

from chart import EXAMPLES, ROOT, VERSIONS, container, judge, main, notes, option, pods, render, yaml

TCP = "TCP joins the GPUs of different nodes"
GPUS = {"resources": {"gpuCount": 8}}


def with_gpus(more):
    return {**more, "resources": {**GPUS["resources"], **more.get("resources", {})}}


def asked(values, role="master"):
    """(requests, limits) of a pod that Kubernetes takes."""
    documents = render(values=values)
    for document in documents:
        judge(document, VERSIONS[-1])
    resources = container(pods(documents, role)[0])["resources"]
    return resources["requests"], resources["limits"]


def ranks_have_processors_and_memory():
    """Eight on GPUs have what users of DeepEP's chart know."""
    for values, cpu, memory, limit in (
            ({}, "2", "1Gi", "4Gi"), ({"ranksPerNode": 1}, "1", "1Gi", "4Gi"),
            ({"ranksPerNode": 3}, "3", "1536Mi", "6Gi"),
            ({"ranksPerNode": 8}, "8", "4Gi", "16Gi"), (GPUS, "16", "32Gi", "64Gi"),
            ({"topology": {"nodes": [{"name": "a", "gpus": 4}]}}, "8", "16Gi", "32Gi"),
            ({**GPUS, "ranksPerNode": 2}, "4", "8Gi", "16Gi"), ({**GPUS, "job": "ep"}, "16", "32Gi", "64Gi"),
            ({**GPUS, "job": "p2p"}, "2", "4Gi", "8Gi"), ({**GPUS, "job": "bench"}, "2", "4Gi", "8Gi"),
            ({**GPUS, "job": "bench", "bench": {"options": {
                "mode": "MG", "num-initiator-dev": 8, "num_target_dev": 8}}}, "16", "32Gi", "64Gi"),
            ({"job": "bench", "nodes": 2, "bench": {"options": {"num_initiator_dev": 3, "num_target_dev": 3}}},
             "3", "1536Mi", "6Gi"), ({"job": "doctor", "ranksPerNode": 8}, "1", "1Gi", "4Gi")):
        requests, limits = asked(values)
        assert (requests["cpu"], requests["memory"]) == (cpu, memory), (values, requests)
        assert limits["memory"] == limit and "cpu" not in limits, (values, limits)


def a_store_has_what_one_rank_has():
    """Also where its values are those of runs on GPUs."""
    for values in ({}, GPUS):
        requests, limits = asked({**values, "job": "store"}, "store")
        assert (requests, limits) == ({"cpu": "1", "memory": "1Gi"}, {"memory": "4Gi"}), (values, requests, limits)


def what_is_given_stays_and_bounds_the_rest():
    for given, requests, limits in (
            ({"requests": {"cpu": 3}}, {"cpu": 3, "memory": "32Gi"}, {"memory": "64Gi"}),
            ({"requests": {"memory": "128Gi"}}, {"cpu": "16", "memory": "128Gi"}, {"memory": "128Gi"}),
            ({"limits": {"cpu": "4500m", "memory": "8Gi"}}, {"cpu": "4500m", "memory": "8Gi"},
             {"cpu": "4500m", "memory": "8Gi"}),
            ({"limits": {"cpu": 64, "memory": "1Ti"}}, {"cpu": "16", "memory": "32Gi"}, {"cpu": 64, "memory": "1Ti"}),
            ({"requests": {"cpu": ""}, "limits": {"memory": ""}}, {"memory": "32Gi"}, {}),
            ({"requests": None, "limits": None}, {}, {})):
        found = asked({"resources": {**GPUS["resources"], **given}})
        devices = {"nvidia.com/gpu": "8"}
        assert found == ({**requests, **devices}, {**limits, **devices}), (given, found)


def infiniband_is_the_usual_device():
    for kind, given, device in (("InfiniBand", {}, "rdma/ib"), ("infiniband", {"rdmaQuantity": 1}, "rdma/ib"),
                                ("IB", {}, "rdma/ib"), ("InfiniBand", {"rdma": "rdma/hca"}, "rdma/hca"),
                                ("rdma/roce_gdr", {}, "rdma/roce_gdr")):
        requests, limits = asked({"topology": {"rdmaType": kind}, "resources": given})
        count = str(given.get("rdmaQuantity", 2))
        assert requests[device] == limits[device] == count, (kind, given, requests)
        assert len([name for name in requests if "/" in name]) == 1, requests
    for kind, given in (("InfiniBand", {"rdma": ""}), ("RoCE", {}), ("", {})):
        requests, _ = asked({"topology": {"rdmaType": kind}, "resources": given})
        assert not [name for name in requests if "/" in name], (kind, given, requests)


def notes_say_that_tcp_joins_the_gpus():
    for more in ({}, {"job": "bench"}, {"mode": "lws"}, {"topology": {"rdmaType": "RoCE"}},
                 {"resources": {"extra": {"hugepages-2Mi": "1Gi"}}}):
        text = notes(with_gpus(more))
        assert TCP in text and "resources.rdma" in text and "RDMA by" not in text, (more, text)
    for more in ({"nodes": 1}, {"resources": {"gpuCount": 0}}, {"resources": {"rdma": "rdma/ib"}},
                 {"topology": {"rdmaType": "InfiniBand"}}, {"resources": {"extra": {"vpc.amazonaws.com/efa": 4}}},
                 {"resources": {"limits": {"rdma/hca": 1}, "requests": {"rdma/hca": 1}}}, {"imex": {"enabled": True}},
                 {"sriov": {"enabled": True, "networks": [{"name": "a"}]}},
                 {"gke": {"interfaces": [{"interfaceName": "eth2", "network": "rdma-0"}]}},
                 {"securityContext": {"privileged": True}}):
        assert TCP not in notes(with_gpus(more)), more


def examples_do_not_join_gpus_by_tcp():
    for path in EXAMPLES:
        assert TCP not in notes(yaml.safe_load(path.read_text())), path


def a_transfer_measures_gpu_memory():
    for role in ("master", "worker"):
        command = container(pods(render(values={**GPUS, "job": "bench"}), role)[0])["command"]
        for side in ("--initiator-seg-type", "--target-seg-type"):
            assert option(command, side) == "VRAM", command
    assert "GPU memory (VRAM)" in notes({**GPUS, "job": "bench"})


def a_transfer_measures_what_its_options_say():
    """Or the only memory that its back end has."""
    for options in ({"initiator-seg-type": "DRAM"}, {"target_seg_type": "VRAM"}, {"backend": "SHM"},
                    {"backend": ["UCX", "shm"]}, {"backend": "UCX,SHM"}, {"backend": "POSIX"}, {"transport": "shm"},
                    {"use_hugepages": True}):
        values = {**GPUS, "job": "bench", "bench": {"options": options}}
        command = container(pods(render(values=values), "master")[0])["command"]
        given = [word for word in command if "seg" in word]
        assert given == [f"--{name.replace('_', '-')}" for name in options if "seg" in name], (options, command)
        assert "GPU memory (VRAM)" not in notes(values), options
    assert "seg" not in json.dumps(render(values={"job": "bench"})), "there are no GPUs"
    assert "VRAM" not in notes({"job": "bench"})


def one_gpu_is_enough_for_one_end():
    for options, more in (({"initiator_seg_type": "VRAM"}, {}), ({"backend": "GDS"}, {}), ({"backend": "SHM"}, {}),
                          ({}, {"nodes": 2}), ({}, {"resources": {"gpuCount": 2}})):
        values = {"job": "bench", "nodes": 1, "resources": {"gpuCount": 1}, "bench": {"options": options}, **more}
        assert pods(render(values=values), "master"), (options, more)


def the_largest_group_on_gpus_is_taken():
    """refusals.py has larger ones. On host memory these are not too large."""
    seats = int(re.search(r"\bDEVICE_SEATS = (\d+)", (ROOT / "src/device/device.h").read_text())[1])
    nine = {**GPUS, "nodes": seats // 8 + 1}
    for values in ({**GPUS, "nodes": seats // 8}, {**nine, "elastic": {"plan": [list(range(8, 8 + seats))]}},
                   {**nine, "elastic": {"options": {"memory": "host"}}},
                   {**nine, "job": "ep", "ep": {"options": {"memory": "host"}}}):
        assert pods(render(values=values)), values


main({test.__name__: test for test in (
    ranks_have_processors_and_memory, a_store_has_what_one_rank_has, what_is_given_stays_and_bounds_the_rest,
    infiniband_is_the_usual_device, notes_say_that_tcp_joins_the_gpus, examples_do_not_join_gpus_by_tcp,
    a_transfer_measures_gpu_memory, a_transfer_measures_what_its_options_say, one_gpu_is_enough_for_one_end,
    the_largest_group_on_gpus_is_taken)})
