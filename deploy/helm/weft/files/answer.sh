#!/bin/sh
# The master of job=doctor: checks its own node, then answers the checks of the others: answer PORT SECONDS ARGUMENT...
port=$1
seconds=$2
shift 2
weft "$@"
status=$?
timeout --preserve-status --signal=TERM "$seconds" weft doctor --listen "$port"
exit $status
