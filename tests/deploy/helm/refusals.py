#!/usr/bin/env python3
"""Wrong values are refused before any object is made, and the error names the value."""
import json

from chart import CHART, helm, main

# The wrong values, and what the message has to name.
MISSPELT = {
    "root": ({"elastik": {}}, "elastik"), "testid": ({"testid": "a"}, "testid"), "rdma": ({"rdma": "x"}, "rdma"),
    "gpu count": ({"resources": {"gpucount": 8}}, "gpucount"), "ucx": ({"ucx": {"tls": "rc"}}, "tls"),
    "deepep": ({"deepep": {"hiddenSize": 7168}}, "hiddenSize"), "topology": ({"topology": {"node": []}}, "node"),
    "node": ({"topology": {"nodes": [{"name": "a", "gpu": 8}]}}, "gpu"),
    "summary": ({"topology": {"summary": {"nodes": 2}}}, "nodes"), "sriov": ({"sriov": {"enable": True}}, "enable"),
    "option of elastic": ({"elastic": {"options": {"num-token": 5}}}, "num-token"),
    "option of bench": ({"bench": {"options": {"start_block": 5}}}, "start_block"),
    "store": ({"store": {"endpoint": "http://e"}}, "endpoint"), "token": ({"token": {"secret": "s"}}, "secret"),
    "rendezvous": ({"deepep": {"rendezvous": {"port": 1}}}, "port"), "imex": ({"imex": {"enable": True}}, "enable"),
    "metrics": ({"metrics": {"podmonitor": {}}}, "podmonitor"), "kueue": ({"kueue": {"queueName": "q"}}, "queueName"),
}
OUT_OF_RANGE = {
    "job": ({"job": "train"}, "job"), "mode": ({"mode": "pods"}, "mode"), "nodes": ({"nodes": 0}, "nodes"),
    "nodes as text": ({"nodes": "2"}, "nodes"), "port": ({"port": 70000}, "port"), "id": ({"testId": "A_b"}, "testId"),
    "image": ({"image": "weft 1"}, "image"), "deadline": ({"activeDeadlineSeconds": 0}, "activeDeadlineSeconds"),
    "hidden": ({"deepep": {"hidden": 1000}}, "deepep.hidden"), "memory": ({"resources": {"limits": {"memory": "4 GB"}}},
                                                                        "resources.limits.memory"),
    "quantity": ({"resources": {"rdmaQuantity": "two"}}, "resources.rdmaQuantity"),
    "agents": ({"elastic": {"agents": "some"}}, "elastic.agents"),
    "empty phase": ({"elastic": {"plan": [[]]}}, "elastic.plan"), "rank twice": ({"elastic": {"plan": [[1, 1]]}},
                                                                               "elastic.plan"),
    "members": ({"store": {"replicas": 2}}, "store.replicas"), "url": ({"store": {"url": "etcd:2379"}}, "store.url"),
    "shm": ({"shm": {"size": "lots"}}, "shm.size"), "log": ({"ucx": {"logLevel": "loud"}}, "ucx.logLevel"),
    "spread": ({"spread": True}, "spread"), "network": ({"sriov": {"networks": ["a"]}}, "sriov.networks.0"),
    "label of the chart": ({"podLabels": {"role": "x"}}, 'Property name of "role"'),
    "label of the chart's monitor": ({"metrics": {"podMonitor": {"labels": {"app": "x"}}}}, 'Property name of "app"'),
    # what the API refuses, for pods of a Job without the user's seeing it
    "queue": ({"kueue": {"queue": "my queue"}}, "kueue.queue"), "long queue": ({"kueue": {"queue": "q" * 64}},
                                                                           "kueue.queue"),
    "priority": ({"priorityClassName": "High"}, "priorityClassName"), "dots": ({"results": {"claim": "a..b"}},
                                                                          "results.claim"),
    "label": ({"podLabels": {"a": "b c"}}, "podLabels.a"), "key": ({"nodeSelector": {"a b": "c"}}, "nodeSelector"),
    "host": ({"topology": {"nodes": [{"name": "a b"}]}}, "topology.nodes.0.name"),
    "level": ({"exclusivePlacement": {"topologyKey": "a/b/c"}}, "exclusivePlacement.topologyKey"),
    "resource": ({"resources": {"extra": {"a b": 1}}}, "resources.extra"), "secret": ({"imagePullSecrets": ["A"]},
                                                                                  "imagePullSecrets.0"),
    "kinds of RDMA": ({"topology": {"rdmaType": "InfiniBand/RoCE"}}, "topology.rdmaType"),
    "long stay": ({"ttlSecondsAfterFinished": 2**31}, "ttlSecondsAfterFinished"),
}
# Values that are right alone, and do not fit each other.
CONTRADICTIONS = {
    "two counts of nodes": ({"nodes": 3, "topology": {"nodes": [{"name": "a"}, {"name": "b"}]}},
                            "nodes is 3, and topology.nodes lists 2"),
    "a rank twice": ({"topology": {"nodes": [{"name": "a", "rank": 0}, {"name": "b", "rank": 0}]}},
                     "topology.nodes: 2 nodes have rank 0"),
    "nodes that differ": ({"topology": {"nodes": [{"name": "a", "gpus": 8}, {"name": "b", "gpus": 4}]}},
                          "topology.nodes: b has 4 GPUs, and a 8"),
    "too many ranks": ({"nodes": 2, "ranksPerNode": 1, "elastic": {"plan": [[0, 1, 2]]}},
                       "elastic.plan: phase 0 has 3 ranks, and there is room for 2"),
    "nobody comes later": ({"nodes": 3, "elastic": {"agents": "fixed", "numAgents": 2}},
                           "elastic.numAgents is 2, and there are 3 nodes"),
    "no such plan": ({"elastic": {"plan": "triple"}}, "there is no plan triple"),
    "experts": ({"deepep": {"numExperts": 5}}, "deepep.numExperts is 5, and there are 4 ranks"),
    "workers": ({"job": "bench", "nodes": 2, "bench": {"options": {"num_initiator_dev": 2}}}, "3 workers"),
    "one node": ({"job": "p2p", "nodes": 1}, "nodes must be 2 or more"),
    "no network": ({"sriov": {"enabled": True}}, "sriov.networks"),
    "no bearer": ({"metrics": {"enabled": True, "podMonitor": {"enabled": True}}}, "metrics.podMonitor.bearerSecret"),
    "no token for metrics": ({"metrics": {"enabled": True}, "store": {"url": "http://e:2379"}},
                             "metrics.enabled needs a token"),
    "no token for metrics with TLS": ({"metrics": {"enabled": True}, "store": {"url": "https://e", "tlsSecret": "s"}},
                                      "metrics.enabled needs a token"),
    "no TLS": ({"store": {"url": "http://e:2379", "tlsSecret": "s"}}, "store.tlsSecret needs"),
    "no certificate": ({"store": {"url": "https://e:2379", "clientCertificate": True}}, "needs store.tlsSecret"),
    "metrics of etcd": ({"job": "store", "store": {"kind": "etcd"}, "metrics": {
        "enabled": True, "podMonitor": {"enabled": True, "bearerSecret": "b"}}}, "store.kind=etcd has none"),
    "nothing to read": ({"metrics": {"podMonitor": {"enabled": True}}}, "needs metrics.enabled"),
    "a long id": ({"mode": "jobset", "testId": "a" * 40, "topology": {"nodes": [{"name": "a"}, {"name": "b"}]}},
                  "testId: with mode=jobset and 2 nodes"),
    "a long id of many": ({"mode": "jobset", "testId": "a" * 40, "nodes": 102}, "want 39 characters at most"),
    "more than the limit": ({"resources": {"requests": {"memory": "8Gi"}, "limits": {"memory": "4Gi"}}},
                            "resources.requests.memory is 8Gi, and resources.limits.memory 4Gi"),
    "more than the limit of a store": ({"job": "store", "resources": {
        "requests": {"cpu": 1}, "limits": {"cpu": "500m"}}},
                                       "resources.requests.cpu is 1, and resources.limits.cpu 500m"),
    "no time to leave": ({"terminationGracePeriodSeconds": 20}, "a worker that is to leave takes 20"),
    "a large group": ({"nodes": 1024, "ranksPerNode": 8}, "nodes x ranksPerNode is 8192"),
    "a large group on GPUs": ({"nodes": 9, "resources": {"gpuCount": 8}},
                              "phase 1 of the plan has 72 ranks, and a group on GPUs has 64 at most"),
    "a large plan on GPUs": ({"resources": {"gpuCount": 8}, "nodes": 9, "elastic": {"plan": [list(range(65))]}},
                             "phase 0 of the plan has 65 ranks, and a group on GPUs has 64 at most"),
    "a large benchmark on GPUs": ({"job": "ep", "nodes": 9, "resources": {"gpuCount": 8}},
                                  "nodes x ranksPerNode is 72, and a group on GPUs has 64 ranks at most"),
    "a transfer within one GPU": ({"job": "bench", "nodes": 1, "resources": {"gpuCount": 1}},
                                  "both ends of a transfer would be on that GPU, and no link is measured"),
    "digits": ({"elastic": {"options": {"seed": 2**53 + 2}}}, "9007199254740994 is too large for Helm"),
    "one port for two": ({"port": 9100, "metrics": {"enabled": True}},
                         "metrics.port is 9100, as that of the master is"),
    "one port of a store": ({"job": "store", "store": {"port": 9100}, "metrics": {"enabled": True}},
                            "metrics.port is 9100, as store.port is"),
    "a port of etcd": ({"job": "store", "store": {"port": 2380, "kind": "etcd"}}, "store.port is 2380"),
    "members without volumes": ({"job": "store", "store": {"replicas": 3, "kind": "etcd"}},
                                "store.replicas is 3, and store.size is not set"),
    "three stores": ({"job": "store", "store": {"replicas": 3}}, "store.replicas"),
}


def refuse(cases):
    for what, (values, named) in cases.items():
        status, _, error = helm("template", "r", CHART, "-f", "-", text=json.dumps(values))
        assert status != 0, f"{what}: {values} is taken"
        assert named in error, f"{what}: nothing names {named}: {error}"


def a_misspelt_value_is_named():
    refuse(MISSPELT)


def a_value_out_of_range_is_named():
    assert len(MISSPELT) + len(OUT_OF_RANGE) >= 30
    refuse(OUT_OF_RANGE)


def a_contradiction_says_what_would_be_right():
    refuse(CONTRADICTIONS)


main({test.__name__: test for test in (a_misspelt_value_is_named, a_value_out_of_range_is_named,
                                       a_contradiction_says_what_would_be_right)})
