#!/usr/bin/env bash
# Runs the chart once for each value of a list, one after the other: sweep.sh NAME VALUE=A,B,... [HELM-ARGUMENT...]
# Example: sweep.sh tokens elastic.options.num-tokens=16,128 -f values.yaml
# The logs of a run are in NAME-A, NAME-B, ...; a line reports how each run ended. A run may take TIMEOUT seconds (900):
# if its master has not ended then, the run has failed. Not for mode=lws, whose pods stay. HELM and KUBECTL name the
# programs, with options ("helm -n NAME", "kubectl -n NAME").
# Exit status: 0 if all passed; 2 for wrong arguments; 1 if a run failed.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [ $# -lt 2 ] || [[ $2 != ?*=?* ]]; then
  echo "usage: $0 NAME VALUE=A,B,... [HELM-ARGUMENT...]" >&2
  exit 2
fi
name=$1 value=${2%%=*} list=${2#*=}
shift 2
read -ra kubectl <<<"${KUBECTL:-kubectl}"
read -ra helm <<<"${HELM:-helm}"
timeout=${TIMEOUT:-900}
failed=0

# What a pod has when weft in it has ended, or when the pod itself has failed, as by an eviction: its cluster may have
# put other containers beside weft, which go on.
ended='{.items[*].status.containerStatuses[?(@.name=="weft")].state.terminated.exitCode}'
ended+='{.items[?(@.status.phase=="Failed")].metadata.name}'

# Waits for the end of a run's master. A Job takes a while to make its pod, and a server may not answer at once.
await() {
  local deadline=$((SECONDS + timeout))
  while [ -z "$("${kubectl[@]}" get pods -l "test-id=$1,role=master" -o "jsonpath=$ended")" ]; do
    [ $SECONDS -lt $deadline ] || return 1
    sleep 1
  done
}

id_of() {
  tr '[:upper:]' '[:lower:]' <<<"$name-$1" | sed 's/[^a-z0-9]/-/g; s/-*$//'
}

IFS=, read -ra all <<<"$list"
declare -A value_of
for one in "${all[@]}"; do
  id=$(id_of "$one")
  if [ -n "${value_of[$id]+there}" ]; then
    echo "$0: the runs of ${value_of[$id]} and $one would both be $id, and the logs of the first be lost: want values" \
      "that differ in more than capitals and signs, or a sweep with another NAME" >&2
    exit 2
  fi
  value_of[$id]=$one
done
for one in "${all[@]}"; do
  id=$(id_of "$one")
  if ! "${helm[@]}" install "$id" "$here/../helm/weft" "$@" --set "testId=$id" --set "$value=$one" \
    --set ttlSecondsAfterFinished=null >/dev/null; then
    echo "$value=$one: FAILED: Helm has not installed it"
    failed=1
    continue
  fi
  how=passed
  await "$id" || how="FAILED: its master has not ended within $timeout s"
  "$here/collect.sh" "$id" "$id" || how="FAILED with status $?"
  echo "$value=$one: $how"
  if [ "$how" != passed ]; then failed=1; fi
  "${helm[@]}" uninstall "$id" --wait >/dev/null
done
exit $failed
