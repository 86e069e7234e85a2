#!/usr/bin/env bash
# transport_peers.sh BUILD_FOLDER shm|tcp|ofi [ROUNDS]: runs bench_transport over UCX's shared memory, UCX's TCP or
# libfabric's TCP, by turns with programs that measure the same without Weft: those of UCX and libfabric (packages
# ucx-utils, libfabric-bin), and bench_ofi_plain. Each pair of processes runs on processors 0 and 1. Prints medians of
# all rounds. Do not run it at a real-time priority: processes that spin would starve the kernel's own threads, which
# carry what is sent.
set -euo pipefail

build=$1 part=$2 rounds=${3:-5}
export WEFT_UCX_PLUGIN=$build/libweft_ucx.so.0 WEFT_OFI_PLUGIN=$build/libweft_ofi.so.0
results=$(mktemp)
trap 'rm -f "$results"' EXIT
port=13400

# own TRANSPORT SETTING...: adds "weft, what value unit" for each line of bench_transport.
own() {
  timeout 60 "$build/bench/bench_transport" --brief "$@" | lines weft
}

lines() {
  sed -E "s/^(.*[^ ]) {2,}([0-9.e+]+) (ns|GB\/s).*/$1, \1|\2|\3/" >>"$results"
}

# perftest NAME TEST SIZE COUNT [NAME=VALUE...]
perftest() {
  local name=$1 test=$2 size=$3 count=$4 line
  shift 4
  port=$((port + 1))
  env "$@" timeout 60 ucx_perftest -p $port -c 1 >/dev/null 2>&1 &
  sleep 0.5 # it does not say when it listens
  line=$(env "$@" timeout 60 ucx_perftest localhost -p $port -t "$test" -s "$size" -n "$count" -c 0 -f | tail -n 1)
  wait
  if [[ $size -lt 100 ]]; then
    awk -v name="$name" '{ printf "%s|%g|ns\n", name, $4 * 1000 }' <<<"$line" >>"$results"
  else
    awk -v name="$name" '{ printf "%s|%g|GB/s\n", name, $6 * 1.048576e-3 }' <<<"$line" >>"$results"
  fi
}

# pingpong SIZE: measures messages back and forth, not writes.
pingpong() {
  port=$((port + 1))
  timeout 60 taskset -c 1 fi_pingpong -B $port -p "tcp;ofi_rxm" -e rdm -I 4000 -S "$1" >/dev/null 2>&1 &
  sleep 0.5
  timeout 60 taskset -c 0 fi_pingpong -P $port -p "tcp;ofi_rxm" -e rdm -I 4000 -S "$1" 127.0.0.1 | tail -n 1 |
    awk -v size="$1" '{ printf "fi_pingpong, %s B, half of a round trip|%g|ns\n", size, $7 * 1000 }' >>"$results"
  wait
}

for ((round = 0; round < rounds; round++)); do
  case $part in
  shm)
    own ucx allocate TLS=posix,self
    perftest "ucx_perftest ucp_put_lat, 8 B" ucp_put_lat 8 1000000 UCX_TLS=posix,self
    perftest "ucx_perftest ucp_put_bw, 1 MiB" ucp_put_bw 1048576 10000 UCX_TLS=posix,self
    ;;
  tcp)
    own ucx TLS=tcp
    perftest "ucx_perftest ucp_put_lat, 8 B" ucp_put_lat 8 20000 UCX_TLS=tcp
    perftest "ucx_perftest ucp_put_bw, 1 MiB" ucp_put_bw 1048576 500 UCX_TLS=tcp
    perftest "ucx_perftest ucp_put_bw, 1 MiB, segments of 256 KiB" ucp_put_bw 1048576 500 UCX_TLS=tcp \
      UCX_TCP_TX_SEG_SIZE=256k UCX_TCP_RX_SEG_SIZE=256k
    perftest "ucx_perftest ucp_am_bw, 1 MiB (messages)" ucp_am_bw 1048576 500 UCX_TLS=tcp
    ;;
  ofi)
    own ofi "provider=tcp;ofi_rxm"
    timeout 60 "$build/bench/bench_ofi_plain" | lines "plain libfabric"
    pingpong 8
    pingpong 1048576
    ;;
  *)
    echo "usage: transport_peers.sh BUILD_FOLDER shm|tcp|ofi [ROUNDS]" >&2
    exit 2
    ;;
  esac
done
# Median, least and most of each.
sort -t '|' -s -k 1,1 -k 2,2g "$results" | awk -F '|' '
  function tell() {
    if (count)
      printf "%-56s %9.4g %-4s (%.4g to %.4g)\n", name, values[int((count + 1) / 2)], unit, values[1], values[count]
    count = 0
  }
  $1 != name { tell() }
  { name = $1; unit = $3; values[++count] = $2 }
  END { tell() }'
