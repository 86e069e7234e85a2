#!/usr/bin/env bash
# Reports the state of the pods of a run, and keeps their logs: collect.sh TEST-ID [FOLDER]
# Writes pods.txt, events.txt and a log for each pod into FOLDER (weft-TEST-ID). Prints a line for each pod: its role,
# its node, and why it does not run or how it ended. KUBECTL names the program, for example "kubectl -n NAME".
# Exit status: the master's, if it has ended; 1 if its pod failed without that; 2 for wrong arguments; 3 if no pod is
# found; else 0.
set -euo pipefail

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
  echo "usage: $0 TEST-ID [FOLDER]" >&2
  exit 2
fi
id=$1
folder=${2:-weft-$id}
read -ra kubectl <<<"${KUBECTL:-kubectl}"

# A field of the state of the run's own container: a cluster may put others beside it.
state() {
  for container in weft etcd; do
    echo -n "{.status.containerStatuses[?(@.name==\"$container\")].state.$1}"
  done
}

columns='{range .items[*]}{.metadata.name}|{.metadata.labels.role}|{.spec.nodeName}|{.status.phase}'
columns+="|$(state terminated.exitCode)|$(state terminated.reason)|{.status.reason}|$(state waiting.reason)|"
columns+='{.status.conditions[?(@.type=="PodScheduled")].message}{"\n"}{end}'

mkdir -p "$folder"
pods=$("${kubectl[@]}" get pods -l "app=weft,test-id=$id" -o "jsonpath=$columns")
if [ -z "$pods" ]; then
  echo "collect.sh: no pod has the label test-id=$id: is that the release's name, and is its namespace in KUBECTL?" >&2
  exit 3
fi
"${kubectl[@]}" get pods -l "app=weft,test-id=$id" -o wide >"$folder/pods.txt"
"${kubectl[@]}" get events --sort-by=.lastTimestamp >"$folder/events.txt" || true

status=0
while IFS='|' read -r name role node phase code ending evicted waits unscheduled; do
  "${kubectl[@]}" logs "$name" --all-containers >"$folder/$name.log" 2>&1 || true
  how=$phase${evicted:+: $evicted}
  case $ending in Completed | Error) ending= ;; esac # what the status says, too
  if [ -n "$code" ]; then how="ended with status $code${ending:+: $ending}${evicted:+: $evicted}"; fi
  if [ -n "$waits" ]; then how="waits: $waits"; fi
  if [ -z "$node" ]; then how="has no node: ${unscheduled:-not scheduled yet}"; fi
  echo "$name ($role) ${node:+on $node }$how"
  if [ "$phase" = Failed ]; then code=${code:-1}; fi # as a pod that was evicted before it ran
  if [ "$role" = master ] && [ -n "$code" ]; then status=$code; fi
done <<<"$pods"
echo "logs are in $folder"
exit "$status"
