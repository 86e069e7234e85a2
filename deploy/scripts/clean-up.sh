#!/usr/bin/env bash
# Removes all objects of a run that was made without Helm, or that Helm lost: clean-up.sh TEST-ID
# Remove a release of Helm with `helm uninstall`. That leaves the volumes of an etcd with store.size; this script
# removes them.
# KUBECTL names the program, with options ("kubectl -n NAME").
set -euo pipefail

if [ $# -ne 1 ] || [ -z "$1" ]; then
  echo "usage: $0 TEST-ID" >&2
  exit 2
fi
read -ra kubectl <<<"${KUBECTL:-kubectl}"
kinds=job,deployment,statefulset,service,configmap,secret,serviceaccount,networkpolicy,poddisruptionbudget
kinds+=,persistentvolumeclaim # a store's: Kubernetes gives them the labels that its StatefulSet selects by
for custom in jobsets.jobset.x-k8s.io leaderworkersets.leaderworkerset.x-k8s.io computedomains.resource.nvidia.com \
  podmonitors.monitoring.coreos.com; do
  if "${kubectl[@]}" get crd "$custom" >/dev/null 2>&1; then kinds+=,$custom; fi
done
"${kubectl[@]}" delete "$kinds" -l "app=weft,test-id=$1" --ignore-not-found --timeout=120s
