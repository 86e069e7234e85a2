#!/bin/sh
# What stands before answer.sh and stay.sh. A pod's first process gets no signal without a handler, and its others get
# none from Kubernetes: a pod that is deleted has to end by what stands here.
told=
child=
trap 'told=yes; [ -z "$child" ] || kill -TERM "$child"' TERM INT

# Runs a command until it has ended: its status into $status, and into $told whether the pod is to end.
run() {
  "$@" &
  child=$!
  [ -z "$told" ] || kill -TERM $child
  wait $child
  status=$?
  # A signal ends the wait before the command has ended, and the next one has its status. Else it knows no such child;
  # a shell that remembers it says the same again.
  while [ "$status" -gt 128 ]; do
    before=$status
    wait $child 2>/dev/null
    status=$?
    if [ "$status" = 127 ] || { [ "$status" = "$before" ] && ! kill -0 $child 2>/dev/null; }; then
      status=$before
      break
    fi
  done
}

