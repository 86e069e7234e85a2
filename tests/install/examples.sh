#!/usr/bin/env bash
# Installs a build into a prefix of its own, builds every program of examples/ against that, runs each and checks what
# it prints: examples.sh BUILD_DIRECTORY
set -euo pipefail

build=$1
work=$(mktemp -d)
server=
trap 'rm -rf "$work"; if [ -n "$server" ]; then kill "$server"; fi' EXIT

fail() {
  echo "$*" >&2
  exit 1
}

# check STATUS PATTERN PROGRAM ARGUMENTS...: the program ends with this status, and prints a line like the pattern.
check() {
  local wanted=$1 pattern=$2 status=0 output
  shift 2
  output=$("$work/$1/$1" "${@:2}" 2>&1) || status=$?
  [ "$status" -eq "$wanted" ] || fail "$* ended with $status, not $wanted: $output"
  grep -qxE "$pattern" <<<"$output" || fail "$* printed no line '$pattern': $output"
  echo "$*: $(tail -n 1 <<<"$output")"
}

cmake --install "$build" --prefix "$work/prefix" >"$work/install.log" || fail "$(cat "$work/install.log")"
built=0
for folder in "$WEFT_SOURCE"/examples/*/; do
  name=$(basename "$folder")
  { cmake -G Ninja -S "$folder" -B "$work/$name" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_C_FLAGS="-Wall -Wextra -pedantic -Werror" && cmake --build "$work/$name"; } >"$work/build.log" 2>&1 ||
    fail "$name: $(cat "$work/build.log")"
  check 2 "usage: $name.*" "$name" --unknown
  built=$((built + 1))
done
[ "$built" -eq 3 ] || fail "$built examples were built: is each of them run below?"

check 0 "passed: 1048576 bytes written, answered and read" transfer
check 0 "passed: 1 bytes written, answered and read" transfer 1
# A target that dies while the initiator waits for its word is missed at once, and not when half a minute has passed.
stdbuf -oL "$work/transfer/transfer" $((512 << 20)) >"$work/died" 2>&1 &
initiator=$!
until grep -q "^write" "$work/died" || ! kill -0 $initiator 2>/dev/null; do sleep 0.01; done
kill -9 "$(pgrep -P $initiator)"
status=0
wait $initiator || status=$?
[ "$status" -eq 5 ] || fail "transfer whose target died ended with $status, not 5: $(cat "$work/died")"

check 0 "passed: put, get, watch and lease" store_client
check 0 "passed: 1 ranks" ep_rank 1
check 0 "rank 3: 8 operations of 16 tokens are right" ep_rank 4

# What a program finds itself stands without a sentence of the library, which would be of another failure: here that
# there is no store, whose process has not enough descriptors.
status=0
# shellcheck disable=SC2016 # for the other shell, which keeps nothing open but what the program begins with
output=$(bash -c 'for fd in /proc/$$/fd/*; do fd=${fd##*/}; [ "$fd" -le 2 ] || eval "exec $fd>&-"; done
ulimit -n 5 && exec "$0" 1' "$work/ep_rank/ep_rank" 2>&1) || status=$?
[ "$status" -eq 3 ] || fail "ep_rank without descriptors ended with $status, not 3: $output"
grep -qx "ep_rank: no store: unreachable" <<<"$output" || fail "ep_rank without a store printed: $output"

# The same with a store of another process.
WEFT_TOKEN=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
export WEFT_TOKEN
coproc store { exec "$work/prefix/bin/weft" serve --port 0; }
# shellcheck disable=SC2154 # coproc sets it
server=$store_PID # which bash forgets when the process has ended
read -r -t 30 url <&"${store[0]}" || fail "weft serve did not print its URL"
check 0 "passed: put, get, watch and lease" store_client "$url"
"$work/ep_rank/ep_rank" 2 1 "$url" >"$work/rank1.log" 2>&1 &
check 0 "rank 0: 8 operations of 16 tokens are right" ep_rank 2 0 "$url"
wait $! || fail "rank 1 failed: $(cat "$work/rank1.log")"
kill "$server"
wait "$server" || true
server=

# Nobody listens at port 1, so the program reports an unreachable store.
check 3 ".*unreachable.*" store_client http://127.0.0.1:1
