#!/bin/sh
# A pod of a LeaderWorkerSet starts its container again when that ends. This one runs weft once, and stays until the
# pod is deleted, so that a run is one run: stay ARGUMENT...
weft "$@" &
child=$!
trap 'kill -TERM $child' TERM INT
wait $child
status=$?
# A signal ends the wait before weft has ended.
while kill -0 $child 2>/dev/null; do
  wait $child
  status=$?
done
echo "weft ended with status $status; this pod stays until it is deleted"
echo "$status" >/tmp/status
trap 'exit $status' TERM INT
sleep infinity &
wait $!
