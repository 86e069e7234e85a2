#!/usr/bin/env python3
"""The guides of clusters: commands run, or are marked for a cluster and show what they print; values that they name are
there, and figures follow from their formulas. And the scripts that they name, with a kubectl and a helm that note what
they are asked."""
import contextlib
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import tempfile

from chart import CHART, ROOT, VERSIONS, helm, judge, main, yaml

GUIDES = [*sorted((ROOT / "docs/guide/cluster").glob("*.md")), ROOT / "deploy/README.md"]
SCRIPTS = ROOT / "deploy/scripts"
PROGRAMS = {"kubectl", "helm", "podman", "weft", "sed"}
JSONPATH = pathlib.Path(__file__).resolve().parent / "support/jsonpath.py"


def blocks(path):
    """(language, commands) of each block, in order."""
    text = re.sub(r"(?m)^ {3}", "", path.read_text())
    for language, body in re.findall(r"(?ms)^```([^\n]*)\n(.*?)^```$", text):
        yield language, body.replace("\\\n", " ").splitlines()


def commands_for_anybody_run():
    count = 0
    for path in GUIDES:
        for language, lines in blocks(path):
            assert language in ("sh", "sh weft", "sh cluster", "text"), f"{path.name}: a block of '{language}'"
            for line in lines if language == "sh" else []:
                words = shlex.split(line, comments=True)
                assert words[0] == "helm" and words[1] in ("install", "template"), f"{path.name}: {line}"
                files = [str(ROOT / w) if w.startswith(("deploy/", "tests/")) else w for w in words[2:]]
                status, out, error = helm("template", *files)
                assert status == 0, f"{path.name}: {line}: {error}"
                for document in yaml.safe_load_all(out):
                    judge(document, VERSIONS[1])
                count += 1
    assert count > 15, count


def commands_for_a_cluster_show_what_they_print():
    for path in GUIDES:
        languages = [language for language, _ in blocks(path)]
        for (language, lines), after in zip(blocks(path), [*languages[1:], None]):
            if language == "sh cluster":
                assert after == "text", f"{path.name}: nothing shows what {lines} print"
                for line in lines:
                    program = shlex.split(line, comments=True)[0]
                    known = program in PROGRAMS or (ROOT / program).exists() or program.startswith("deploy/images/")
                    assert known, f"{path.name}: {line}"


def manifests_get_the_reader_s_image():
    """By the line of deploy/README.md."""
    line, = [line for _, lines in blocks(ROOT / "deploy/README.md") for line in lines if line.startswith("sed ")]
    program, _, command, *files = shlex.split(line)
    for file in files:
        said = subprocess.run([program, command, ROOT / file], stdout=subprocess.PIPE, text=True, check=True).stdout
        images = re.findall(r'image: "(\S+)"', said)
        assert images and set(images) == {"REGISTRY/weft:0.1.0"}, (file, images)
    others = {str(path.relative_to(ROOT)) for path in ROOT.glob("deploy/manifests/*") if '"weft:' in path.read_text()}
    assert others == set(files), others


def shape(line):
    """A line that is shown, as a pattern: N stands for a number, ... for anything, a blank for blanks."""
    words = [r"[\d.,]+" if word == "N" else re.escape(word).replace(r"\.\.\.", ".*") for word in line.split()]
    return r"^\s*" + r"\s+".join(words)


def commands_of_weft_print_what_is_shown():
    """Those of one page share a folder, where plans/ is ours."""
    count = 0
    for path in GUIDES:
        found = list(blocks(path))
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "plans").symlink_to(ROOT / "plans")
            env = {**os.environ, "COLUMNS": "100", "HOME": folder, "XDG_CACHE_HOME": folder}
            for (language, lines), (after, wanted) in zip(found, [*found[1:], ("", [])]):
                if language != "sh weft":
                    continue
                said = ""
                for line in lines:
                    words = shlex.split(line, comments=True)
                    assert words[0] == "weft", f"{path.name}: {line}"
                    done = subprocess.run([os.environ["WEFT"], *words[1:]], env=env, cwd=folder, stdout=subprocess.PIPE,
                                          stderr=subprocess.PIPE, text=True, timeout=120, check=False)
                    assert done.returncode == 0, f"{path.name}: {line}: {done.returncode} {done.stderr}"
                    said += done.stdout
                    count += 1
                assert after == "text", f"{path.name}: nothing shows what {lines} print"
                place = 0
                for line in wanted:
                    match = re.compile(shape(line), re.M).search(said, place)
                    assert match, f"{path.name}: after {lines} no line is like '{line}':\n{said}"
                    place = match.end()
    assert count > 5, count


def figures_of_windows_follow_from_their_formula():
    """8 ranks a node, 128 tokens, hidden 7168."""
    text = (ROOT / "docs/guide/cluster/capacity.md").read_text()
    wanted = []
    for nodes in (1, 2, 4, 8):
        windows, cells = 7 + 2 * 8 * (nodes - 1), []
        for row in (2 * 7168, 7168 + 7168 // 32):
            of_rank = windows * 2 * 128 * (row + 2 * 7168)
            cells += [f"{of_rank / 1e6:.0f} MB", f"{8 * of_rank / 1e9:.2f} GB"]
        wanted.append(" | ".join(["", *map(str, (nodes, nodes * 8, windows)), *cells, ""]).strip())
    assert "\n".join(wanted) in text, "\n".join(wanted)


def values_that_are_named_are_there():
    schema = json.loads((CHART / "values.schema.json").read_text())
    for path in GUIDES:
        for name in re.findall(r"`([a-z]\w*(?:\.[\w-]+)+)(?:=[^`]*)?`", path.read_text()):
            parts, place = name.split("."), schema
            if parts[0] not in schema["properties"]:
                continue
            for part in parts:
                any_name = place.get("additionalProperties")
                place = place.get("properties", {}).get(part) or (any_name if isinstance(any_name, dict) else {})
                assert place, f"{path.name}: there is no value {name}"


def stub(folder, name, body):
    path = pathlib.Path(folder, name)
    path.write_text(f'#!/bin/sh\nprintf "%s\\n" "{name} $*" >>"{folder}/calls"\n{body}\n')
    path.chmod(0o755)
    return str(path)


def pod(name, role, node="n1", phase="Running", state=None, beside=(), **status):
    """A pod of the API; `state`: of weft's container, which others stand `beside`."""
    containers = [*beside, *([{"name": "weft", "state": state}] if state else [])]
    return {"metadata": {"name": name, "labels": {"role": role}}, "spec": {"nodeName": node} if node else {},
            "status": {"phase": phase, **({"containerStatuses": containers} if containers else {}), **status}}


def ended(code, reason="Error"):
    return {"terminated": {"exitCode": code, "reason": reason}}


def master(code):
    return pod("weft-master-x", "master", phase="Failed" if code else "Succeeded", state=ended(code))


def run(folder, script, *arguments, pods=(), helm_does="", **more):
    """The script's exit status and output, and what it asked of kubectl and helm. The pods are there when it asks for
    the end of the master's again."""
    pathlib.Path(folder, "pods").write_text(json.dumps({"items": list(pods)}))
    env = {**os.environ, **more, "HELM": stub(folder, "helm", helm_does) + " -n space",
           "KUBECTL": stub(folder, "kubectl", f"""
for last; do :; done
case "$*" in
  *jsonpath={{range*) python3 "{JSONPATH}" "$last" <"{folder}/pods" ;;
  *jsonpath=*) [ ! -e "{folder}/asked" ] || python3 "{JSONPATH}" "$last" <"{folder}/pods"; touch "{folder}/asked" ;;
  *"get crd jobsets"*) ;;
  *"get crd"*) exit 1 ;;
esac
""") + " -n space"}
    done = subprocess.run([SCRIPTS / script, *arguments], env=env, cwd=folder, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
    calls = pathlib.Path(folder, "calls")
    return done.returncode, done.stdout, calls.read_text() if calls.exists() else ""


def collect_says_how_pods_stand():
    sidecar = {"name": "proxy", "state": ended(0, "Completed")}
    pods = [pod("weft-master-x", "master", phase="Failed", state=ended(5), beside=[sidecar]),
            pod("weft-worker-x", "worker", "n2", state={"running": {}}),
            pod("late", "worker", None, "Pending", conditions=[{"type": "PodScheduled", "message": "no room"}]),
            pod("stuck", "worker", "n3", "Pending", {"waiting": {"reason": "ImagePullBackOff"}}),
            pod("large", "worker", "n4", "Failed", ended(137, "OOMKilled")),
            pod("moved", "worker", "n5", "Failed", reason="Evicted")]
    with tempfile.TemporaryDirectory() as folder:
        status, said, calls = run(folder, "collect.sh", "x", pods=pods)
        assert status == 5, (status, said)
        for line in ("weft-master-x (master) on n1 ended with status 5\n", "weft-worker-x (worker) on n2 Running\n",
                     "late (worker) has no node: no room\n", "stuck (worker) on n3 waits: ImagePullBackOff\n",
                     "large (worker) on n4 ended with status 137: OOMKilled\n",
                     "moved (worker) on n5 Failed: Evicted\n"):
            assert line in said, said
        assert all(line.startswith("kubectl -n space ") for line in calls.splitlines()), calls
        assert pathlib.Path(folder, "weft-x/weft-master-x.log").exists()
        evicted = pod("weft-master-x", "master", phase="Failed", reason="Evicted")
        assert run(folder, "collect.sh", "x", pods=[evicted])[0] == 1
        status, said, _ = run(folder, "collect.sh", "y")
        assert status == 3 and "no pod has the label test-id=y" in said, said
        assert run(folder, "collect.sh")[0] == 2


def clean_up_removes_one_run_alone():
    with tempfile.TemporaryDirectory() as folder:
        status, _, calls = run(folder, "clean-up.sh", "x")
        last = calls.splitlines()[-1]
        assert status == 0 and " delete job," in last and "-l app=weft,test-id=x" in last, calls
        kinds = last.split(" delete ")[1].split()[0].split(",")
        for template in CHART.glob("templates/*.*"):
            text = template.read_text()
            made = re.findall(r"^kind: (\w+)$", text, re.M)
            made += ["PersistentVolumeClaim"] if "volumeClaimTemplates" in text else []
            for kind in {kind.lower() for kind in made} - {"leaderworkerset", "computedomain", "podmonitor"}:
                assert any(kind in {each, each.split(".")[0].removesuffix("s")} for each in kinds), (kind, kinds)
        assert run(folder, "clean-up.sh")[0] == 2 and run(folder, "clean-up.sh", "")[0] == 2


def shells(file, *arguments):
    """A script of the chart's containers as a command, for each shell that /bin/sh is somewhere."""
    text = (CHART / "files/run.sh").read_text() + (CHART / "files" / file).read_text()
    return [[*shell, "-c", text, *arguments] for shell in (["/bin/sh"], ["bash", "--posix"])]


@contextlib.contextmanager
def begun(folder, command):
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True) as shell:
        try:
            yield shell
        finally:
            with contextlib.suppress(ProcessLookupError):  # what a pod's end takes with it
                os.killpg(shell.pid, signal.SIGKILL)


def the_master_of_doctor_ends_when_its_pod_is_deleted():
    """The shell is the pod's first process: alone it gets SIGTERM, and has to hand it on. A `timeout` that gets it
    before it has noted its child ends alone, which a pod's end makes good: this master listens once its parent sleeps.
    """
    with tempfile.TemporaryDirectory() as folder:
        stub(folder, "weft", """
[ "$2" = --listen ] || exit 3
trap 'echo told; exit 0' TERM
until grep -q "^State:.S" /proc/$PPID/status; do sleep 0.1; done
echo listens
while kill -0 $PPID; do sleep 0.1; done
""")
        for command in shells("answer.sh", "answer", "5555", "30", "doctor"):
            with begun(folder, command) as shell:
                assert shell.stdout.readline() == "listens\n"
                shell.terminate()
                assert shell.communicate(timeout=20)[0] == "told\n"
                assert shell.returncode == 3, "the status is that of the master's own check"


def the_master_of_doctor_answers_in_each_mode():
    """In a LeaderWorkerSet its pod stays then, with the status of the master's own check."""
    with tempfile.TemporaryDirectory() as folder:
        stub(folder, "weft", 'echo "$2"; [ "$2" = --listen ] || exit 3')
        for mode in ("job", "jobset", "lws"):
            status, out, error = helm("template", "r", CHART, "--set", f"job=doctor,mode={mode},doctor.options.color=x")
            assert status == 0, error
            found = re.findall(r"command: (\[.*answer PORT.*\])", out)
            command = json.loads(found[0].replace("/tmp/", f"{folder}/"))
            with begun(folder, command) as shell:
                assert [shell.stdout.readline() for _ in range(2)] == ["--color\n", "--listen\n"], mode
                if mode == "lws":
                    assert shell.stdout.readline() == "weft ended with status 3; this pod stays until it is deleted\n"
                    shell.terminate()
                assert shell.wait(20) == 3, mode
                assert shell.stdout.read() == "", mode


def the_master_of_doctor_shows_an_etcd_no_token():
    """weft refuses to send it by plain HTTP; whoever calls afterwards has to show it."""
    with tempfile.TemporaryDirectory() as folder:
        stub(folder, "weft", 'echo "$2 ${WEFT_TOKEN-none}"')
        for url, shown in (("http://etcd:2379", "none"), ("https://weft:2379", "secret")):
            for command in shells("answer.sh", "answer", "5555", "30", "doctor", "--store", url):
                env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "WEFT_TOKEN": "secret"}
                done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, timeout=60, check=True)
                assert done.stdout == f"--store {shown}\n--listen secret\n", done.stdout


def a_pod_that_stays_ends_when_it_is_deleted():
    """It ends with weft's own status, also if it ends at once; a pod ended by a signal is restarted, if allowed."""
    with tempfile.TemporaryDirectory() as folder:
        stub(folder, "weft", """
mkdir "$1" 2>/dev/null && kill -s KILL $$
trap 'kill $!; exit 5' TERM
sleep 60 >/dev/null &
echo runs
wait
""")
        for number, command in enumerate(shells("stay.sh", "again") * 20):
            with begun(folder, [*command, f"{folder}/{number}"]) as shell:
                assert shell.stdout.readline() == "weft was ended by signal 9, and starts again\n"
                assert shell.stdout.readline() == "runs\n"
                shell.terminate()
                assert shell.wait(20) == 5, command[0]
        for command in shells("stay.sh", "stay"):
            command[-2] = command[-2].replace("/tmp/", f"{folder}/")
            with begun(folder, [*command, f"{folder}/stays-{pathlib.Path(command[0]).name}"]) as shell:
                assert shell.stdout.readline() == "weft ended with status 137; this pod stays until it is deleted\n"
                shell.terminate()
                assert shell.wait(20) == 137, command[0]


def sweep_runs_each_value_and_says_which_failed():
    with tempfile.TemporaryDirectory() as folder:
        status, said, calls = run(folder, "sweep.sh", "t", "elastic.options.num_tokens=16,128", "--set", "nodes=2",
                                  pods=[master(0)])
        assert status == 0 and "num_tokens=16: passed" in said and "num_tokens=128: passed" in said, said
        installs = [line for line in calls.splitlines() if line.startswith("helm -n space install")]
        assert len(installs) == calls.count("helm -n space uninstall") == 2, calls
        for line in installs:  # what it asks of Helm is right
            assert helm("template", *line.split()[4:])[0] == 0, line
        status, said, _ = run(folder, "sweep.sh", "t", "nodes=2", pods=[master(5)])
        assert status == 1 and "nodes=2: FAILED with status 5" in said, said
        proxy = {"name": "proxy", "state": {"running": {}}}
        goes_on = pod("weft-master-x", "master", state=ended(0), beside=[proxy])
        assert "nodes=2: passed" in run(folder, "sweep.sh", "t", "nodes=2", pods=[goes_on])[1]
        evicted = pod("weft-master-x", "master", phase="Failed", reason="Evicted")
        assert "nodes=2: FAILED with status 1" in run(folder, "sweep.sh", "t", "nodes=2", pods=[evicted])[1]
        for waits in (pod("weft-master-x", "master", None, "Pending"),
                      pod("weft-master-x", "master", state={"running": {}}, beside=[{"name": "a", "state": ended(0)}])):
            status, said, _ = run(folder, "sweep.sh", "t", "nodes=2", pods=[waits], TIMEOUT="1")
            assert status == 1 and "nodes=2: FAILED: its master has not ended within 1 s" in said, said
        assert run(folder, "sweep.sh", "t", "nodes")[0] == 2
        status, said, calls = run(folder, "sweep.sh", "t", "elastic.options.dtype=fp8,bf16,FP8")
        assert status == 2 and "the runs of fp8 and FP8 would both be t-fp8" in said and "fp8" not in calls, said
        status, said, calls = run(folder, "sweep.sh", "way", "ucx.transports=rc+tcp,tcp", pods=[master(0)],
                                  helm_does="""case "$*" in *install*=tcp*) ;; *install*) exit 1 ;; esac""")
        assert status == 1 and "=rc+tcp: FAILED: Helm has not installed it" in said and "=tcp: passed" in said, said
        installs = [line for line in calls.splitlines() if line.startswith("helm -n space install way-")]
        assert len(installs) == 2 and calls.count("uninstall way-") == 1, calls
        for line in installs:
            assert helm("template", *line.split()[4:])[0] == 0, line


main({test.__name__: test for test in (
    commands_for_anybody_run, manifests_get_the_reader_s_image, commands_of_weft_print_what_is_shown,
    commands_for_a_cluster_show_what_they_print,
    figures_of_windows_follow_from_their_formula, values_that_are_named_are_there,
    collect_says_how_pods_stand, clean_up_removes_one_run_alone,
    the_master_of_doctor_ends_when_its_pod_is_deleted, the_master_of_doctor_answers_in_each_mode,
    the_master_of_doctor_shows_an_etcd_no_token, a_pod_that_stays_ends_when_it_is_deleted,
    sweep_runs_each_value_and_says_which_failed)})
