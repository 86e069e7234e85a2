#!/usr/bin/env bash
# Runs the chart once for each value of a list, one after the other: sweep.sh NAME VALUE=A,B,... [HELM-ARGUMENT...]
# as: sweep.sh tokens elastic.options.num-tokens=16,128 -f values.yaml
# The logs of a run are in NAME-A, NAME-B, ...; a line says how each ended. A run may take TIMEOUT seconds (900). Not
# for mode=lws, whose pods stay.
# Exit status: 0 if all passed; 2 for wrong arguments; 1 if one did not.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [ $# -lt 2 ] || [[ $2 != ?*=?* ]]; then
  echo "usage: $0 NAME VALUE=A,B,... [HELM-ARGUMENT...]" >&2
  exit 2
fi
name=$1 value=${2%%=*} list=${2#*=}
shift 2
read -ra kubectl <<<"${KUBECTL:-kubectl}"
helm=${HELM:-helm}
failed=0
IFS=, read -ra all <<<"$list"
for one in "${all[@]}"; do
  id=$(tr '[:upper:]_.' '[:lower:]--' <<<"$name-$one")
  "$helm" install "$id" "$here/../helm/weft" "$@" --set "testId=$id" --set "$value=$one" \
    --set ttlSecondsAfterFinished=null >/dev/null
  "${kubectl[@]}" wait --for=jsonpath='{.status.containerStatuses[0].state.terminated}' pod \
    -l "test-id=$id,role=master" --timeout="${TIMEOUT:-900}s" >/dev/null || true
  if "$here/collect.sh" "$id" "$id"; then
    echo "$value=$one: passed"
  else
    echo "$value=$one: FAILED with status $?"
    failed=1
  fi
  "$helm" uninstall "$id" --wait >/dev/null
done
exit $failed
