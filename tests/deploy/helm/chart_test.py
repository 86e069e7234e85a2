#!/usr/bin/env python3
"""What the chart renders: valid objects for every job, mode and example; old charts' values; what pods may and say."""
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from api import Api
from chart import (CHART, EXAMPLES, LATER, ROOT, VALUES, VERSIONS, container, environment, helm, judge, main, notes,
                   of_kind, option, pods, render, templates, yaml)

JOBS = ("elastic", "bench", "ep", "p2p", "doctor")
MODES = ("job", "jobset", "lws")
COMMANDS = {"elastic": ["elastic"], "bench": ["bench", "transfer"], "ep": ["bench", "ep"], "p2p": ["p2p"],
            "doctor": ["doctor"]}
EVERYTHING = {  # that can be switched on beside each other
    "networkPolicy": {"enabled": True, "egress": [{"ports": [{"port": 2379}]}]},
    "metrics": {"enabled": True, "podMonitor": {"enabled": True, "bearerSecret": "bearer", "labels": {"a": "b"}}},
    "priorityClassName": "high", "runtimeClassName": "nvidia", "nodeSelector": {"pool": "gpu"},
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}], "podLabels": {"team": "moe"},
    "podAnnotations": {"note": 1}, "results": {"claim": "results", "json": True}, "env": {"WEFT_LOG": "debug", "N": 3},
    "kueue": {"queue": "q", "priorityClass": "p", "topology": "rack"}, "exclusivePlacement": {"topologyKey": "rack"},
    "imagePullSecrets": ["one", {"name": "two"}], "spread": "preferred", "ucx": {"logLevel": "warn"},
}


def lint_finds_nothing():
    for values in (None, *EXAMPLES, *VALUES):
        status, out, error = helm("lint", "--strict", CHART, *(["-f", values] if values else []))
        assert status == 0, out + error


def judge_all(documents, versions):
    assert documents
    for version, document in itertools.product(versions, documents):
        judge(document, version)


def examples_and_old_values_are_valid():
    for values in (*EXAMPLES, *VALUES):
        documents = render("-f", values)
        assert pods(documents), values
        judge_all(documents, [LATER] if of_kind(documents, "ComputeDomain") else VERSIONS)


def every_job_in_every_mode_is_valid():
    for job, mode in itertools.product(JOBS, MODES):
        judge_all(render(values={"job": job, "mode": mode, "nodes": 4}), VERSIONS[:1])
    for kind, replicas in (("weft", 1), ("etcd", 1), ("etcd", 3)):
        store = {"kind": kind, "replicas": replicas, "size": "1Gi"}
        judge_all(render(values={"job": "store", "store": store}), VERSIONS)
    for mode in MODES:
        judge_all(render(values={**EVERYTHING, "mode": mode}), VERSIONS)
    judge_all(render(values={**EVERYTHING, "job": "store"}), VERSIONS)


def the_older_chart_s_values_mean_what_they_meant():
    documents = render("-f", VALUES[[v.name for v in VALUES].index("older.yaml")])
    assert {d["metadata"]["namespace"] for d in documents} == {"gpu-tests"}
    names = {d["metadata"]["name"] for d in documents}
    assert {"weft-master-nightly-7", "weft-worker-nightly-7-1"} <= names, names
    (master,), (worker,) = pods(documents, "master"), pods(documents, "worker")
    assert master["spec"]["affinity"]["nodeAffinity"] != worker["spec"]["affinity"]["nodeAffinity"]
    assert "gpu-04" in json.dumps(master["spec"]["affinity"]), "the master is the node of rank 0, not the first"
    assert "gpu-17" in json.dumps(worker["spec"]["affinity"])
    assert (master["metadata"]["labels"]["rank"], worker["metadata"]["labels"]["rank"]) == ("0", "1")
    assert master["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] == "rdma-a,rdma-b"
    command = container(master)["command"]
    told = {"--num-tokens": "512", "--hidden-dim": "2048", "--num-topk": "4", "--num-experts-per-rank": "2",
            "--store-port": "29500", "--num-processes": "8", "--num-agents": "2", "--memory": "cuda"}
    assert {name: option(command, name) for name in told} == told, command
    assert option(container(worker)["command"], "--rank-server") == "weft-master-nightly-7:29500"
    assert environment(master)["UCX_TLS"] == "rc,ud,dc,tcp,cuda_copy,cuda_ipc,gdr_copy"
    assert environment(master)["UCX_IB_GID_INDEX"] == "0"
    for kind in ("requests", "limits"):
        given = container(master)["resources"][kind]
        assert (given["rdma/ib"], given["nvidia.com/gpu"]) == ("2", "8"), given
    shm = [v for v in master["spec"]["volumes"] if v["name"] == "shm"]
    assert shm[0]["emptyDir"] == {"medium": "Memory", "sizeLimit": "16Gi"}
    service, = of_kind(documents, "Service", "master")
    assert service["spec"]["publishNotReadyAddresses"] and service["spec"]["clusterIP"] == "None"


def the_newer_chart_s_values_mean_what_they_meant():
    documents = render("-f", VALUES[[v.name for v in VALUES].index("newer.yaml")])
    jobset, = of_kind(documents, "JobSet")
    wanted = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "kubernetes.io/hostname"}
    assert jobset["metadata"]["annotations"] == wanted
    assert jobset["spec"]["ttlSecondsAfterFinished"] == 300 and jobset["spec"]["failurePolicy"] == {"maxRestarts": 0}
    master, = pods(documents, "master")
    assert [s["name"] for s in master["spec"]["imagePullSecrets"]] == ["registry", "other"]
    assert environment(master)["UCX_IB_GID_INDEX"] == "3"


def a_node_chooser_s_part_is_enough():
    documents = render("-f", VALUES[[v.name for v in VALUES].index("chosen.yaml")])
    assert len(pods(documents)) == 3 and len(of_kind(documents, "Job", "worker")) == 2
    for template in pods(documents):
        assert container(template)["resources"]["limits"]["nvidia.com/gpu"] == "8"
        assert container(template)["resources"]["limits"]["rdma/ib"] == "2"


def a_run_scales_by_two_numbers_of_one_job():
    """Else the API refuses the change: a Job's template cannot change. The plan has phases for the new pods."""
    plan = [[0, 1], list(range(10)), [0, 1]]
    fixed = {"elastic": {"numAgents": 2, "plan": plan, "options": {"num-experts-per-rank": 2}}}

    def jobs(nodes):
        return of_kind(render(values={**fixed, "nodes": nodes}, hooks=False), "Job")

    small, large = jobs(2), jobs(5)
    assert small[1]["spec"]["parallelism"] == small[1]["spec"]["completions"] == 1
    small[1]["spec"].update(parallelism=4, completions=4)
    assert small == large


def a_killed_worker_has_a_successor_and_one_that_ends_by_itself_has_none():
    for mode, values, restarts in itertools.product(("job", "jobset"), ({}, {"agents": "fixed"}), (None, 2)):
        documents = render(values={"mode": mode, "nodes": 3, "elastic": values, "workerRestarts": restarts})
        jobs = {t["metadata"]["labels"]["role"]: job for d in documents for t, job in templates(d) if job}
        elastic = not values
        assert jobs["master"]["backoffLimit"] == 0 and "podFailurePolicy" not in jobs["master"]
        assert jobs["worker"]["backoffLimit"] == (restarts or (6 if elastic else 0)), jobs["worker"]
        assert ("podFailurePolicy" in jobs["worker"]) == elastic
        assert option(container(jobs["master"]["template"])["command"], "--agents") == \
            ("elastic" if elastic else "fixed")
        assert jobs["worker"]["template"]["spec"]["terminationGracePeriodSeconds"] > 20, "a leave takes so long"
    worker, = of_kind(render(values={"nodes": 2}), "Job", "worker")
    policy = worker["spec"]["podFailurePolicy"]
    assert not {0, 128 + 9, 128 + 11} & set(policy["rules"][1]["onExitCodes"]["values"]), policy


def worker_restarts_are_those_that_are_said():
    for job, unsaid in (("elastic", 6), ("doctor", 2), ("bench", 0)):
        for said, wanted in ((None, unsaid), (0, 0), (1, 1)):
            worker, = of_kind(render(values={"job": job, "nodes": 2, "workerRestarts": said}), "Job", "worker")
            assert worker["spec"]["backoffLimit"] == wanted, (job, said, worker["spec"]["backoffLimit"])


def the_master_of_doctor_answers_as_long_as_a_worker_may_come():
    """Within the time that its Job has."""
    late = {"startupTimeoutSeconds": 900}
    for values, wanted in (({}, "300"), (late, "540"), ({**late, "activeDeadlineSeconds": 1000}, "900"),
                           ({"doctor": {"listenSeconds": 7}}, "7")):
        master, = of_kind(render(values={"job": "doctor", **values}), "Job", "master")
        command = container(master["spec"]["template"])["command"]
        assert command[command.index("answer") + 2] == wanted, (values, command)
        worker, = of_kind(render(values={"job": "doctor", **values}), "Job", "worker")
        assert option(container(worker["spec"]["template"])["command"], "--timeout-ms") == "30000", "it may hang in two"


def only_the_master_takes_the_claim():
    """Most volumes are for one node."""
    for template in pods(render("--set", "results.claim=disk")):
        results = template["spec"]["volumes"][0]
        assert ("emptyDir" not in results) == (template["metadata"]["labels"]["role"] == "master"), results


def without_rdma_pods_keep_to_the_restricted_profile():
    for values in ({}, {"job": "store"}, {"job": "store", "store": {"kind": "etcd"}}, {"mode": "lws"}):
        for document in render(values=values):
            for template, _ in templates(document):
                pod, inside = template["spec"]["securityContext"], container(template)["securityContext"]
                assert pod["runAsNonRoot"] and pod["runAsUser"] and pod["seccompProfile"] == {"type": "RuntimeDefault"}
                assert not inside["allowPrivilegeEscalation"] and inside["capabilities"] == {"drop": ["ALL"]}
                assert inside["readOnlyRootFilesystem"] and not template["spec"]["automountServiceAccountToken"]
                assert not any("hostPath" in v for v in template["spec"].get("volumes", []))
    master, = pods(render("--set", "resources.rdma=rdma/ib"), "master")
    assert container(master)["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["IPC_LOCK"]}


def no_service_s_name_becomes_an_option():
    """Kubernetes gives pods WEFT_STORE_PORT=tcp://... for a Service weft-store, and weft refuses it as a port."""
    services = of_kind(render(name="store", values={"job": "store"}), "Service")
    assert [s["metadata"]["name"] for s in services if s["spec"].get("clusterIP") != "None"] == ["weft-store"]
    env = {**os.environ, "WEFT_STORE_PORT": "tcp://10.96.0.7:2379"}
    done = subprocess.run([os.environ["WEFT"], "elastic", "--plan", ROOT / "plans/no_expansion.json"], env=env,
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "WEFT_STORE_PORT" in done.stderr, done.stderr
    for job, mode in itertools.product((*JOBS, "store"), MODES):
        for document in render(values={"job": job, "mode": mode}):
            assert all(t["spec"]["enableServiceLinks"] is False for t, _ in templates(document)), (job, mode)


def a_test_removes_no_object_of_another_release():
    """Helm removes what has the name of a hook before it makes that: also the Service of a store."""
    hooks = {(d["kind"], d["metadata"]["name"]) for d in render(name="x") if "annotations" in d["metadata"]}
    assert {kind for kind, _ in hooks} == {"Service", "Job"}, hooks
    for name, job in itertools.product(("test-x", "x-test", "x"), (*JOBS, "store")):
        others = render(name=name, values={"job": job, "store": {"kind": "etcd"}}, hooks=False)
        assert not hooks & {(d["kind"], d["metadata"]["name"]) for d in others}, name


def nothing_is_fetched_at_run_time():
    for job, mode in itertools.product(JOBS, MODES):
        for template in pods(render(values={"job": job, "mode": mode})):
            command = " ".join(container(template)["command"])
            assert not re.search(r"\b(git|apt|apt-get|pip|curl|wget)\b", command), command


def transports_need_no_escaped_commas():
    for given in ("{rc,tcp}", "rc+tcp", "rc tcp", r"rc\,tcp"):
        master, = pods(render("--set", f"ucx.transports={given}"), "master")
        assert environment(master)["UCX_TLS"] == "rc,tcp", given


def a_gid_index_of_0_is_one():
    """As a number as well, which Helm takes for nothing said."""
    for given, index in ((0, "0"), ("0", "0"), (1, "1"), ("", "3"), ("auto", "auto")):
        documents = render(values={"resources": {"rdma": "rdma/roce_gdr"}, "ucx": {"gidIndex": given}})
        assert environment(pods(documents, "master")[0])["UCX_IB_GID_INDEX"] == index, given
    assert "UCX_IB_GID_INDEX" not in environment(pods(render(), "master")[0])


def the_token_is_random_and_in_the_secret_alone():
    tokens = [of_kind(render(hooks=False), "Secret")[0]["data"]["token"] for _ in range(2)]
    assert tokens[0] != tokens[1]
    documents = render(values={"token": {"existingSecret": "mine", "key": "word"}})
    assert not of_kind(documents, "Secret")
    source = [e for e in container(pods(documents)[0])["env"] if e["name"] == "WEFT_TOKEN"][0]["valueFrom"]
    assert source == {"secretKeyRef": {"name": "mine", "key": "word"}}
    etcd = render(values={"store": {"url": "http://etcd:2379"}})
    assert not of_kind(etcd, "Secret") and "WEFT_TOKEN" not in environment(pods(etcd)[0])


def test_pods_meet_where_the_run_does():
    """An etcd by plain HTTP: no pod has a token, which a store of their own would want."""
    documents = render(values={"store": {"url": "http://etcd:2379"}})
    [job] = [d for d in of_kind(documents, "Job", "test")]
    assert "WEFT_TOKEN" not in environment(job["spec"]["template"])
    script = container(job["spec"]["template"])["command"][-1]
    assert script.count("--store http://etcd:2379") == 2 and "--listen" not in script, script
    [job] = of_kind(render(), "Job", "test")
    assert "WEFT_TOKEN" in environment(job["spec"]["template"])
    assert "--listen 0.0.0.0" in container(job["spec"]["template"])["command"][-1]


def selects(selector, labels):
    """Whether a selector of labels takes a pod with these."""
    rules = selector.get("matchExpressions", [])
    return selector.get("matchLabels", {}).items() <= labels.items() and \
        all((labels.get(e["key"]) in e["values"]) == (e["operator"] == "In") for e in rules)


def terms(template, kind):
    """What the pods of a template must have, or must not have, in their domain."""
    return template["spec"].get("affinity", {}).get(kind, {}).get("requiredDuringSchedulingIgnoredDuringExecution", [])


def test_pods_keep_off_no_node_and_no_pod_keeps_off_theirs():
    """Kubernetes holds a pod to what others on the node refuse: two nodes with a pod of the run each have room."""
    for values in ({}, {"mode": "lws"}, {"exclusivePlacement": {"topologyKey": "rack"}}, {"spread": "preferred"}):
        documents = render(values=values)
        [job] = of_kind(documents, "Job", "test")
        test = job["spec"]["template"]
        assert not terms(test, "podAntiAffinity")
        for template in pods(documents):
            for kind in ("podAntiAffinity", "podAffinity"):
                for term in terms(template, kind):
                    assert not selects(term["labelSelector"], test["metadata"]["labels"]), (values, term)
    master, worker = pods(render())
    assert selects(terms(worker, "podAntiAffinity")[0]["labelSelector"], master["metadata"]["labels"])


def annotation(documents, kind, name):
    return of_kind(documents, kind)[0]["metadata"].get("annotations", {}).get(name)


def a_run_has_a_domain_to_itself_in_which_its_pods_have_room():
    """JobSet's own annotation gives each Job a domain of its own, and all pods of a Job the same one."""
    for mode, key in itertools.product(MODES, ("rack", "kubernetes.io/hostname")):
        node = key != "rack"
        documents = render(values={"mode": mode, "nodes": 4, "exclusivePlacement": {"topologyKey": key}})
        if mode == "lws":
            given = annotation(documents, "LeaderWorkerSet", "leaderworkerset.sigs.k8s.io/exclusive-topology")
            assert given == (None if node else key), given
        if mode == "jobset":
            assert not annotation(documents, "JobSet", "alpha.jobset.sigs.k8s.io/exclusive-topology")
        for template in pods(documents):
            labels = template["metadata"]["labels"]
            other = {**labels, "test-id": "another"}
            apart, away, together = ([t for t in terms(template, kind) if selects(t["labelSelector"], labels)]
                                     for kind, labels in (("podAntiAffinity", labels), ("podAntiAffinity", other),
                                                          ("podAffinity", labels)))
            assert [t["topologyKey"] for t in apart] == ["kubernetes.io/hostname"], (mode, key, apart)
            if mode != "lws" or node:  # else it is LeaderWorkerSet's own
                assert [t["topologyKey"] for t in together] == ([] if node else [key]), (mode, key, together)
                assert [(t["topologyKey"], t["namespaceSelector"]) for t in away] == [(key, {})], (mode, key, away)


def a_store_s_pods_are_where_their_values_say():
    """Members of etcd on nodes of their own: two that one node takes away are the store."""
    zone = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}}}
    for kind, replicas in (("weft", 1), ("etcd", 3)):
        values = {"job": "store", "store": {"kind": kind, "replicas": replicas, "size": "1Gi"}, "affinity": zone,
                  "podAnnotations": {"note": "1"}, "exclusivePlacement": {"topologyKey": "rack"}}
        documents = render(values=values)
        judge_all(documents, VERSIONS)
        template, = pods(documents)
        assert template["spec"]["affinity"]["nodeAffinity"] == zone["nodeAffinity"], kind
        assert template["metadata"]["annotations"] == {"note": "1"}, kind
        apart, = terms(template, "podAntiAffinity")
        assert apart["topologyKey"] == "kubernetes.io/hostname" and not terms(template, "podAffinity")
        assert selects(apart["labelSelector"], template["metadata"]["labels"]), apart
        template, = pods(render(values={**values, "spread": "none"}))
        assert not terms(template, "podAntiAffinity")


def members_of_an_etcd_are_evicted_one_at_a_time():
    """Else the drains of two nodes at once are the end of a store of three. A store of one pod may be evicted."""
    for kind, replicas in (("weft", 1), ("etcd", 1), ("etcd", 3)):
        store = {"kind": kind, "replicas": replicas, "size": "1Gi"}
        documents = render(values={"job": "store", "store": store})
        budgets = of_kind(documents, "PodDisruptionBudget")
        assert len(budgets) == (replicas == 3), (kind, replicas)
        for budget in budgets:
            assert budget["spec"]["maxUnavailable"] == 1
            template, = pods(documents)
            assert selects(budget["spec"]["selector"], template["metadata"]["labels"]), budget
            for document in of_kind(documents, "Job", "test"):
                assert not selects(budget["spec"]["selector"], document["spec"]["template"]["metadata"]["labels"])


def an_etcd_that_stays_forgets_what_was():
    """It keeps every change otherwise, and refuses all writes when they fill its quota."""
    template, = pods(render(values={"job": "store", "store": {"kind": "etcd"}}))
    assert environment(template)["ETCD_AUTO_COMPACTION_MODE"] == "revision"
    assert int(environment(template)["ETCD_AUTO_COMPACTION_RETENTION"]) >= 10000


def an_upgrade_keeps_the_token():
    with Api(Secret={"data": {"token": "a2VwdA=="}}) as api:
        documents = render("--dry-run=server", "--kube-apiserver", api.url, hooks=False)
    assert of_kind(documents, "Secret")[0]["data"] == {"token": "a2VwdA=="}


def an_upgrade_that_changes_the_members_of_an_etcd_is_refused():
    """Members know each other from the first start on: new ones would not find a place, and one of three has no say."""
    with Api(StatefulSet={"spec": {"replicas": 3}}) as api:
        for replicas in (3, 1):
            store = {"kind": "etcd", "replicas": replicas, "size": "1Gi"}
            status, _, error = helm("template", "r", CHART, "--dry-run=server", "--kube-apiserver", api.url, "-f", "-",
                                    text=json.dumps({"job": "store", "store": store}))
            assert (status == 0) == (replicas == 3), error
            assert replicas == 3 or "store.replicas is 1, and this etcd has 3" in error, error


def test_pods_have_the_labels_that_pods_are_given():
    """Clusters refuse pods without some labels, and put containers that never end beside pods without others."""
    for job in (*JOBS, "store"):
        documents = render(values={"job": job, "podLabels": {"sidecar.istio.io/inject": "false"}})
        for template in [t for document in documents for t, _ in templates(document)]:
            assert template["metadata"]["labels"]["sidecar.istio.io/inject"] == "false", (job, template["metadata"])


def a_chart_of_any_version_has_labels_that_are_taken():
    """Versions of builds have a "+" in them, and may be long."""
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(CHART, pathlib.Path(folder, "weft"))
        text = (CHART / "Chart.yaml").read_text()
        for version in ("0.1.0+20261129.gabcdef", "0.1.0-" + 51 * "a" + ".0+b"):
            pathlib.Path(copy, "Chart.yaml").write_text(text.replace("\nversion: 0.1.0", f"\nversion: {version}"))
            status, out, error = helm("template", "r", copy)
            assert status == 0, error
            labels = set(re.findall(r"helm.sh/chart: (.*)", out))
            assert labels and all(re.fullmatch(r'"weft-0\.1\.0[-_.A-Za-z0-9]{,51}[A-Za-z0-9]"', one) for one in labels)


def the_master_of_p2p_waits_for_each_worker():
    """They come when their nodes have the image, so not while another measures."""
    for mode, nodes in itertools.product(MODES, (2, 5)):
        master, = pods(render(values={"job": "p2p", "mode": mode, "nodes": nodes}), "master")
        assert option(container(master)["command"], "--initiators") == str(nodes - 1)


def what_kubernetes_takes_is_taken_as_it_stands():
    """Quantities of every form, names of every form, and numbers that Helm would write with an exponent."""
    same = {"cpu": "5e-1", "memory": "1e9", "example.com/Dev.ice_1": "+2.", "hugepages-2Mi": ".5G"}
    documents = render(values={
        "resources": {"requests": same, "limits": {**same, "cpu": "600000000n", "memory": 1000000000}},
        "terminationGracePeriodSeconds": 10, "elastic": {"agents": "fixed"}, "deepep": {"numTokens": 0},
        "podAnnotations": {"note": 1000000, "Example.io_x": True}, "env": {"my.var-1": 1},
        "podLabels": {"example.com/a": "B_1.c", "none": ""}, "nodeSelector": {"kubernetes.io/os": "linux"},
        "kueue": {"queue": "a.b-1", "priorityClass": "c"}, "priorityClassName": "system-node.critical",
        "topology": {"nodes": [{"name": "Host_1"}, {"name": "ip-10-0-0-1.ec2.internal"}]}})
    judge_all(documents, VERSIONS)
    for template in pods(documents):
        assert container(template)["resources"]["requests"] == same
        assert template["metadata"]["annotations"]["note"] == "1000000"
        assert template["spec"]["terminationGracePeriodSeconds"] == 10
    master, = pods(documents, "master")
    assert option(container(master)["command"], "--num-tokens") == "0"


def a_queue_has_the_jobs_of_a_test_too():
    """A cluster that admits Jobs only by Kueue would never start one without a queue."""
    for values in ({"kueue": {"queue": "q", "priorityClass": "p"}}, {"kueue": {"queue": "q"}, "job": "store"}):
        documents = render(values=values)
        assert of_kind(documents, "Job", "test"), values
        for job in of_kind(documents, "Job"):
            assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "q", job["metadata"]
    assert not any("kueue" in str(job) for job in of_kind(render(), "Job"))


def a_network_policy_lets_pods_reach_dns():
    """Also on OpenShift, whose DNS pods listen at 5353 behind port 53 of their Service."""
    [policy] = of_kind(render(values={"networkPolicy": {"enabled": True}}), "NetworkPolicy")
    open_to_all = [rule["ports"] for rule in policy["spec"]["egress"] if "to" not in rule]
    assert open_to_all == [[{"port": port, "protocol": protocol} for port in (53, 5353) for protocol in ("UDP", "TCP")]]


def a_test_that_passed_leaves_nothing():
    """Hooks are no part of a release: `helm uninstall` does not remove them."""
    hooks = [d for d in render() if "helm.sh/hook" in d["metadata"].get("annotations", {})]
    assert [d["kind"] for d in hooks] == ["Service", "Job"], hooks
    for document in hooks:
        policies = document["metadata"]["annotations"]["helm.sh/hook-delete-policy"].split(",")
        assert set(policies) == {"before-hook-creation", "hook-succeeded"}, policies


def an_etcd_by_tls_is_checked_by_its_secret():
    """Without a token, which etcd refuses; so are the pods of `helm test`."""
    of_client = {"WEFT_CERT": "/etc/weft-store/tls.crt", "WEFT_KEY": "/etc/weft-store/tls.key"}
    for job, mode, client in itertools.product(("elastic", "bench", "ep"), MODES, (False, True)):
        documents = render(values={"job": job, "mode": mode, "store": {
            "url": "https://etcd:2379", "tlsSecret": "etcd-client", "clientCertificate": client}})
        judge_all(documents, VERSIONS[:1])
        assert not of_kind(documents, "Secret")
        [test] = of_kind(documents, "Job", "test")
        for template in [*pods(documents), test["spec"]["template"]]:
            known = {n: v for n, v in environment(template).items() if n in ("WEFT_TOKEN", "WEFT_CA", *of_client)}
            assert known == {"WEFT_CA": "/etc/weft-store/ca.crt", **(of_client if client else {})}, known
            assert {"name": "store", "secret": {"secretName": "etcd-client"}} in template["spec"]["volumes"]
            assert [m["name"] for m in container(template)["volumeMounts"] if m["mountPath"] == "/etc/weft-store"]
    assert not any(v["name"] == "store" for t in pods(render()) for v in t["spec"]["volumes"])


def pods_listen_where_their_addresses_are():
    """0.0.0.0 takes no connection by IPv6, and "::" takes both kinds."""
    everything = {"metrics": {"enabled": True}, "store": {"kind": "weft"}}
    for job, kind in (*((job, "weft") for job in (*JOBS, "store")), ("store", "etcd")):
        for listen, url in (("0.0.0.0", "0.0.0.0:"), ("::", "[::]:")):
            values = {**everything, "job": job, "listen": listen, "store": {"kind": kind}}
            text = json.dumps(render(values=values))
            found = re.findall(r"(?:0\.0\.0\.0|(?<!\d)::|\[::\]):?", text)
            assert set(found) <= {listen, url} and found, (job, kind, listen, found)


def a_release_s_name_may_have_dots():
    documents = render(name="weft-0.1")
    assert {d["metadata"]["name"] for d in of_kind(documents, "Service")} == {"weft-master-weft-0-1",
                                                                              "test-weft-weft-0-1"}
    judge_all(documents, VERSIONS)
    assert "weft-master-weft-0-1:9999" in container(pods(documents, "worker")[0])["command"]


def names_that_look_like_numbers_stay_names():
    """And those that YAML takes for a truth: Kubernetes refuses both in the place of a text."""
    names = {"namespace": "2026", "serviceAccount": {"name": "1"}, "priorityClassName": "2", "runtimeClassName": "3",
             "imagePullSecrets": ["4", {"name": "5"}], "results": {"claim": "6"}, "env": {"Y": "on"},
             "token": {"existingSecret": "7", "key": "8"}, "store": {"size": "1Gi", "storageClass": "9"},
             "metrics": {"enabled": True, "podMonitor": {"enabled": True, "bearerSecret": "10"}}}
    judge_all(render(values=names), VERSIONS)
    judge_all(render(values={**names, "token": {"key": "8"}}), VERSIONS)
    del names["metrics"]
    names["store"]["kind"] = "etcd"
    judge_all(render(values={**names, "job": "store"}), VERSIONS)
    assert {d["metadata"]["namespace"] for d in render("--namespace", "0123")} == {"0123"}


def a_long_name_is_cut_where_names_may_end():
    for name in ("a" * 38 + "--b", "a" * 39 + ".b", "a" * 41):
        judge_all(render(name=name), VERSIONS)
        services = {d["metadata"]["name"] for d in of_kind(render(name=name), "Service", "master")}
        assert not {service for service in services if service.endswith("-")}, services


def large_numbers_stay_numbers():
    documents = render(values={"job": "bench", "bench": {"options": {"max_block_size": 2147483648, "backend":
                                                                      ["SHM", "UCX"], "check_consistency": True}}})
    for template in pods(documents):
        command = container(template)["command"]
        assert option(command, "--max-block-size") == "2147483648" and option(command, "--backend") == "SHM,UCX"
        assert "--check-consistency" in command
    master, = pods(render("--set", "elastic.options.iterations=1000000"), "master")
    assert option(container(master)["command"], "--iterations") == "1000000"


def walk(schema, values, path, found):
    for name, inner in schema.get("properties", {}).items():
        here = [*path, name]
        if path[-1:] == ["options"] or name == "global":
            continue
        if name not in values:
            found.append(".".join(here))
        elif inner.get("properties") and name != "options":
            walk(inner, values[name], here, found)
    return found


def every_value_has_a_default_that_says_what_it_is():
    schema = json.loads((CHART / "values.schema.json").read_text())
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    assert not walk(schema, defaults, [], []), walk(schema, defaults, [], [])


def options_of(job):
    """What `weft ... --help` lists."""
    text = subprocess.run([os.environ["WEFT"], *COMMANDS[job], "--help"], stdout=subprocess.PIPE, text=True, check=True,
                          env={"COLUMNS": "100"}).stdout
    heads = re.findall(r"^ {2,6}(?:-\w, )? {0,6}(--\S.*?)(?: {2,}|$)", text, flags=re.M)
    return {name for head in heads for name in re.findall(r"--([a-z][\w-]*)", head)}


def leaves_and_sections(values, before=()):
    for name, inner in values.items():
        yield (*before, name)
        if isinstance(inner, dict):
            yield from leaves_and_sections(inner, (*before, name))


def a_value_that_is_null_is_not_said_or_is_refused_by_its_name():
    """Helm leaves it out then, as where all of a section is commented out, so that templates find nothing there."""
    means_none = ("ttlSecondsAfterFinished", "resources.requests", "resources.limits")
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    for base in ({}, {"job": "store"}):
        wanted = helm("template", "r", CHART, "--set", "token.existingSecret=s", "-f", "-", text=json.dumps(base))[1]
        for path in leaves_and_sections(defaults):
            name, values = ".".join(path), None
            for part in reversed(path):
                values = {part: values}
            if base and path[0] not in ("store", "resources", "ucx"):
                continue
            if name in ("job", "token", "token.existingSecret"):
                continue
            status, out, error = helm("template", "r", CHART, "--set", "token.existingSecret=s", "-f", "-",
                                      text=json.dumps({**base, **values}))
            assert f"{path[-1]} is required" in error if status else name.startswith(means_none) or out == wanted, \
                (base, name, error)


def the_schema_knows_the_commands_options():
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]
    for job in JOBS:
        known = {name.replace("_", "-") for name in schema[job]["properties"]["options"]["properties"]}
        there = {name.replace("_", "-") for name in options_of(job)}
        assert len(there) > 5, (job, there)
        assert known <= there, f"{job}: weft has no {known - there}"
        # Those that the chart gives itself, other names of options, and what a pod has no use for.
        own = {"help", "user", "password", "config-file", "token", "token-file", "listen", "ca", "cert", "key",
               "rank-server", "store", "store-port", "metrics", "metrics-bearer-file", "json", "host", "forever",
               "lend", "startup-timeout", "tcp-server", "etcd-server", "etcd-endpoints", "run-dir", "cuda", "peer",
               "plan", "num-agents", "agents", "num-processes", "job", "benchmark-group", "local-workers", "ranks",
               "local-ranks", "mode", "ip", "port", "timeout-ms", "launcher", "initiators"}
        assert not there - known - own, f"{job}: the schema lacks {there - known - own}"


def plans_are_those_of_the_tree():
    for path in (ROOT / "plans").glob("*.json"):
        assert (CHART / "plans" / path.name).read_bytes() == path.read_bytes(), path.name
        plan = of_kind(render("--set", f"elastic.plan={path.stem}", "--set", "nodes=5"), "ConfigMap")[0]["data"]
        assert json.loads(plan["plan.json"]) == json.loads(path.read_text())


def notes_have_the_next_three_commands():
    for values in ({}, {"job": "p2p"}, {"job": "store"}, {"mode": "lws"},
                   {"topology": {"platform": "GKE", "allSameBlock": False}}):
        text = notes(values)
        assert len(re.findall(r"^  (kubectl|helm) ", text, flags=re.M)) == 3, text
        stays = values.get("mode") == "lws"
        assert ("stay until it is uninstalled" in text) == stays, text
        assert ("It ends within" in text) == (not stays and values.get("job") != "store"), text


def imex_gives_each_pod_a_channel():
    documents = render("-f", CHART / "examples/nvlink-domain.yaml")
    domain, = of_kind(documents, "ComputeDomain")
    assert domain["spec"]["numNodes"] == 4
    name = domain["spec"]["channel"]["resourceClaimTemplate"]["name"]
    for template in pods(documents):
        assert template["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] == name
        assert container(template)["resources"]["claims"] == [{"name": "imex-channel"}]
        assert "nvidia.com/gpu.clique" in json.dumps(template["spec"]["affinity"]["podAffinity"])


main({test.__name__: test for test in (
    lint_finds_nothing, examples_and_old_values_are_valid, every_job_in_every_mode_is_valid,
    the_older_chart_s_values_mean_what_they_meant, the_newer_chart_s_values_mean_what_they_meant,
    a_node_chooser_s_part_is_enough, a_run_scales_by_two_numbers_of_one_job,
    a_killed_worker_has_a_successor_and_one_that_ends_by_itself_has_none,
    worker_restarts_are_those_that_are_said, the_master_of_doctor_answers_as_long_as_a_worker_may_come,
    only_the_master_takes_the_claim,
    without_rdma_pods_keep_to_the_restricted_profile, no_service_s_name_becomes_an_option,
    a_test_removes_no_object_of_another_release,
    nothing_is_fetched_at_run_time,
    transports_need_no_escaped_commas, a_gid_index_of_0_is_one, the_token_is_random_and_in_the_secret_alone,
    test_pods_meet_where_the_run_does, test_pods_keep_off_no_node_and_no_pod_keeps_off_theirs,
    a_run_has_a_domain_to_itself_in_which_its_pods_have_room, a_store_s_pods_are_where_their_values_say,
    members_of_an_etcd_are_evicted_one_at_a_time, an_etcd_that_stays_forgets_what_was, an_upgrade_keeps_the_token,
    an_upgrade_that_changes_the_members_of_an_etcd_is_refused, test_pods_have_the_labels_that_pods_are_given,
    a_chart_of_any_version_has_labels_that_are_taken,
    the_master_of_p2p_waits_for_each_worker, what_kubernetes_takes_is_taken_as_it_stands,
    a_queue_has_the_jobs_of_a_test_too, a_network_policy_lets_pods_reach_dns,
    a_test_that_passed_leaves_nothing, an_etcd_by_tls_is_checked_by_its_secret,
    pods_listen_where_their_addresses_are, a_release_s_name_may_have_dots,
    names_that_look_like_numbers_stay_names, a_long_name_is_cut_where_names_may_end, large_numbers_stay_numbers,
    every_value_has_a_default_that_says_what_it_is, a_value_that_is_null_is_not_said_or_is_refused_by_its_name,
    the_schema_knows_the_commands_options, plans_are_those_of_the_tree,
    notes_have_the_next_three_commands, imex_gives_each_pod_a_channel)})
