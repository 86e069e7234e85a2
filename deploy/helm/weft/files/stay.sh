#!/bin/sh
# Behind run.sh. A pod of a LeaderWorkerSet starts its container again when that ends. This one runs weft once, and
# stays until the pod is deleted, so that a run is one run: stay ARGUMENT...
# again ARGUMENT...: the same, but weft is started again where a signal ended it that was not for this pod, as for lack
# of memory: it joins the run that goes on without it.
# shellcheck disable=SC2154

[ "$0" = stays ] || run weft "$@" # else answer.sh has
while [ "$0" = again ] && [ "$status" -gt 128 ] && [ -z "$told" ]; do
  echo "weft was ended by signal $((status - 128)), and starts again"
  run weft "$@"
done
sleeper=
trap '[ -z "$sleeper" ] || kill "$sleeper"; exit $status' TERM INT
if [ -n "$told" ]; then exit "$status"; fi
echo "weft ended with status $status; this pod stays until it is deleted"
echo "$status" >/tmp/status
sleep infinity >/dev/null 2>&1 &
sleeper=$!
wait $sleeper
