#!/bin/sh
# The master of job=doctor: checks its own node, then answers the checks of the others: answer PORT SECONDS ARGUMENT...
# A pod's first process gets no signal without a handler, and its others get none from Kubernetes: a pod that is deleted
# has to end by what stands here.
port=$1
seconds=$2
shift 2
told=
child=
trap 'told=yes; [ -z "$child" ] || kill -TERM "$child"' TERM INT

run() {
  "$@" &
  child=$!
  wait $child
  ended=$?
  # A signal ends the wait before the child has ended.
  while kill -0 $child 2>/dev/null; do
    wait $child
    ended=$?
  done
}

run weft "$@"
status=$ended
[ -n "$told" ] || run timeout --preserve-status --signal=TERM "$seconds" weft doctor --listen "$port"
exit "$status"
