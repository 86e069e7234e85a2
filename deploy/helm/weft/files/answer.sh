#!/bin/sh
# Behind run.sh: the master of job=doctor. It checks its own node, then answers the checks of the others: answer PORT
# SECONDS ARGUMENT...
# stays PORT SECONDS ARGUMENT...: the same before stay.sh, whose pod does not end by itself.
# shellcheck disable=SC2154
port=$1
seconds=$2
shift 2

# The token is for the others. An etcd by plain HTTP is asked without it, as weft sends none there.
case " $*" in
  *" http://"*) run env -u WEFT_TOKEN weft "$@" ;;
  *) run weft "$@" ;;
esac
own=$status
[ -n "$told" ] || run timeout --preserve-status --signal=TERM "$seconds" weft doctor --listen "$port"
status=$own
[ "$0" = stays ] || exit "$status"
