#!/usr/bin/env bash
# Makes deploy/manifests/ from the chart, for clusters without Helm: make-manifests.sh [FOLDER]
# HELM names the program, "helm" unless set. Each file begins with the values that it was made with.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=${1:-$root/deploy/manifests}

# make FILE WHAT RELEASE VALUE...: leaves out what only Helm needs: its hooks, its labels and the namespace.
make() {
  local file=$1 what=$2 release=$3 values=() value
  shift 3
  for value in "$@"; do values+=(--set "$value"); done
  {
    echo "# $what"
    echo "# Made by deploy/scripts/make-manifests.sh, as helm template $release deploy/helm/weft with:"
    echo "# ${values[*]}"
    "${HELM:-helm}" template "$release" "$root/deploy/helm/weft" --no-hooks --namespace default "${values[@]}" |
      sed '/^# Source:/d; /^  namespace: default$/d; /^ *helm.sh\/chart:/d; /^ *app.kubernetes.io\/managed-by:/d'
  } >"$folder/$file"
}

token=token.existingSecret=weft-token
make etcd.yaml 'An etcd of one member: its keys end with the pod.' etcd job=store store.kind=etcd
make etcd-three.yaml 'An etcd of three members on three nodes, each with a volume.' etcd job=store store.kind=etcd \
  store.replicas=3 store.size=1Gi
make two-nodes.yaml 'A plan on two nodes without RDMA; needs the Secret weft-token (README.md).' two-nodes nodes=2 \
  elastic.plan=expansion_fault_rejoin ranksPerNode=4 "$token"
make bench.yaml 'A transfer sweep between two pods that meet on the etcd of etcd.yaml.' bench job=bench nodes=2 \
  store.url=http://weft-etcd:2379 bench.options.backend=UCX bench.options.check_consistency=true
