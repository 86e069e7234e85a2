"""Which memory a run uses, without a GPU and with a plug-in that reports fake ones (fake_gpus.c)."""

import json
import os
import subprocess

from tool import WEFT, Run, free_port, main

FAKE = os.environ["WEFT_FAKE_GPUS"]
FOUR = [[0, 1, 2, 3]]


def some(count, **more):
    return {"WEFT_CUDA_PLUGIN": FAKE, "FAKE_GPUS": str(count), **more}


# As on a host without: no file that is installed here gets in the way.
NONE = {"WEFT_CUDA_PLUGIN": "/nowhere/libweft_cuda.so.0"}


def refused(*words, arguments=("--memory", "cuda"), plan=FOUR, **environment):
    with Run(*arguments, plan=plan, environment=environment) as run:
        run.expect(3)
        for word in words:
            assert word in run.text(), (word, run.text())
        said = [line for line in run.text().splitlines() if not line.startswith("weft: WEFT_CUDA_PLUGIN")]
        assert len(said) == 1, run.text()
        assert not run.path.exists(), "a run that did not begin has left its directory"


def runs_on_host(*words, plan=FOUR, **environment):
    with Run("--memory", "auto", plan=plan, environment=environment) as run:
        run.expect(0)
        lines = [line for line in run.text().splitlines() if "host memory, because" in line]
        assert len(lines) == 1 and all(word in lines[0] for word in words), (words, run.text())
        results = run.results()
        assert results["config"]["memory"] == "host" and words[0] in results["config"]["memory_why"], results["config"]
        assert all(row["gpu"] is None for phase in results["phases"] for row in phase["ranks"]), results
        report = " ".join(run.text().split())
        assert "times by the host's clock" in report and "not on GPUs, because" in report, run.text()
        told = [event for event in run.events() if event["kind"] == "memory"]
        assert len(told) == 1 and told[0]["memory"] == "host" and words[0] in told[0]["why"], told
        assert all(event["gpu"] == -1 for event in run.events() if event["kind"] == "launch")


def cuda_without_a_gpu():
    refused("--memory cuda", "the CUDA plug-in", **NONE)
    refused("--memory cuda", "there is no GPU", **some(0))
    refused("--memory cuda", "the driver is of the year of the flood", **some(4, FAKE_GPUS_CANNOT="count"))


def auto_without_a_gpu():
    runs_on_host("the CUDA plug-in", **NONE)
    runs_on_host("there is no GPU", **some(0))


def fewer_gpus_than_ranks():
    refused("2 GPUs", "4 ranks", "--share-gpus", **some(2))
    refused("1 GPU ", "CUDA_VISIBLE_DEVICES is '3'", "4 ranks", CUDA_VISIBLE_DEVICES="3", **some(1))
    runs_on_host("2 GPUs", "4 ranks", **some(2))


def what_counts_is_how_many_are_live_at_once():
    refused("3 GPUs", "4 ranks", plan=[[0, 1], [0, 1, 2, 3], [4, 5]], **some(3))
    refused("1 GPU ", "2 ranks", plan=[[0, 1]], **some(1))
    refused("2 GPUs", "3 ranks", arguments=("--memory", "cuda", "--num-processes", "8"), plan=[[0, 1], [0, -1, 2]],
            **some(2))


def more_ranks_than_gpus_can_serve():
    refused("up to 65 ranks", "there can be at most 64", arguments=("--memory", "cuda", "--share-gpus"),
            plan=[list(range(65))], **some(4))


def gpus_that_cannot():
    refused("GPU 0: it has fallen off the bus", **some(4, FAKE_GPUS_CANNOT="describe"))
    refused("GPU 0 (Fake 0) has compute capability 7.0", **some(4, FAKE_GPUS_CANNOT="compute"))
    refused("GPU 0 (Fake 0) cannot share its memory", **some(4, FAKE_GPUS_CANNOT="windows"))
    refused("GPU 0 cannot reach GPU 1: they are on different continents", **some(4, FAKE_GPUS_CANNOT="peer"))
    runs_on_host("GPU 0 cannot reach GPU 1", **some(4, FAKE_GPUS_CANNOT="peer"))


def odd_visible_devices():
    for value, word in (("", "empty"), ("-1", "hides every GPU"), ("0,1,0", "names 0 twice"), ("0,h200", "'h200'"),
                        ("0,,1", "''"), ("0;1", "'0;1'"), ("GPU-", "'GPU-'"), ("GPU-1a,GPU-1a", "GPU-1a twice")):
        refused("CUDA_VISIBLE_DEVICES", word, CUDA_VISIBLE_DEVICES=value, **some(4))
    runs_on_host("CUDA_VISIBLE_DEVICES", "names 1 twice", CUDA_VISIBLE_DEVICES="1,1", **some(4))
    for value in ("0,1", " 0, 1", "1,-1,7", "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6,MIG-1"):  # nothing odd
        refused("2 GPUs", CUDA_VISIBLE_DEVICES=value, **some(2))


def a_follower_without_gpus():
    """The lead decides; a follower that cannot says so and goes."""
    port = free_port()
    arguments = ("--num-agents", 2, "--num-processes", 1, "--store-port", port)
    with Run(*arguments, "--memory", "cuda", plan=[[0, 1]], environment=some(1)) as lead:
        with Run("--rank-server", f"127.0.0.1:{port}", "--num-processes", 1, job=lead.job, environment=NONE) as other:
            other.expect_status(3)
            assert "--memory cuda: " in other.text() and "the CUDA plug-in" in other.text(), other.text()
        lead.process.terminate()
        lead.expect(143)


def two_agents_on_one_gpu():
    """Each has enough, but they are the same."""
    port = free_port()
    arguments = ("--num-agents", 2, "--num-processes", 1, "--store-port", port, "--memory", "cuda")
    with Run(*arguments, plan=[[0, 1]], environment=some(2)) as lead:
        with Run("--rank-server", f"127.0.0.1:{port}", "--num-processes", 1, job=lead.job,
                 environment=some(2)) as other:
            lead.expect(3)
            words = "agents 0 and 1 on ", " both use GPU-00000000-0000-0000-0000-000000000000: ", "--share-gpus"
            assert all(word in lead.text() for word in words), lead.text()
            other.expect_status(3)
        assert not [event for event in lead.events() if event["kind"] == "launch"], lead.events()


def a_follower_that_asks_for_other_memory_gets_an_error():
    """The lead decides; a difference is reported with the values of both sides."""
    port = free_port()
    arguments = ("--num-agents", 2, "--num-processes", 1, "--store-port", port)
    with Run(*arguments, plan=[[0, 1]], environment=NONE) as lead:
        with Run("--rank-server", f"127.0.0.1:{port}", "--num-processes", 1, "--memory", "cuda", job=lead.job,
                 environment=NONE) as other:
            other.expect_status(2)
            assert all(word in other.text() for word in ("--memory", "cuda", "host")), other.text()
        lead.process.terminate()
        lead.expect(143)


def info_tells_the_gpus():
    def info(**environment):
        environment = dict(os.environ, **environment)
        text = subprocess.run([WEFT, "info"], env=environment, capture_output=True, text=True, check=True).stdout
        found = subprocess.run([WEFT, "info", "--json"], env=environment, capture_output=True, text=True, check=True)
        return " ".join(text.split()), json.loads(found.stdout)["gpus"]  # however it is broken into lines

    text, gpus = info(**some(2))
    assert gpus["available"] and [gpu["name"] for gpu in gpus["devices"]] == ["Fake 0", "Fake 1"], gpus
    assert gpus["devices"][1]["uuid"] == "00000000-0000-0000-0000-000000000001" and gpus["devices"][0]["windows"], gpus
    assert "0: Fake 0 at 0000:00:00.0, 8 GiB, 132 processors, compute capability 9.0; GPU-0000" in text, text
    for words, environment in (("the CUDA plug-in", NONE), ("there is no GPU", some(0)),
                               ("year of the flood", some(2, FAKE_GPUS_CANNOT="count")),
                               ("names 0 twice", dict(some(2), CUDA_VISIBLE_DEVICES="0,0"))):
        text, gpus = info(**environment)
        assert not gpus["available"] and words in gpus["reason"] and gpus["devices"] == [], gpus
        assert f" GPUs none: {gpus['reason']} " in text, text
    text, gpus = info(**some(1, FAKE_GPUS_CANNOT="describe"))
    assert gpus["devices"] == [{"index": 0, "error": "it has fallen off the bus"}] and "0: it has fallen" in text, text


main({test.__name__: test for test in (
    cuda_without_a_gpu, auto_without_a_gpu, fewer_gpus_than_ranks, what_counts_is_how_many_are_live_at_once,
    more_ranks_than_gpus_can_serve, gpus_that_cannot, odd_visible_devices, a_follower_without_gpus,
    two_agents_on_one_gpu, a_follower_that_asks_for_other_memory_gets_an_error,
    info_tells_the_gpus)})
