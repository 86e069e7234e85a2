#!/usr/bin/env bash
# transport_peers.sh BUILD_FOLDER [ROUNDS]: bench_transport over UCX and libfabric beside ucx_perftest and fi_pingpong
# (packages ucx-utils, libfabric-bin), in turn, each on processors 0 and 1. Other variables of UCX and libfabric apply.
set -euo pipefail

build=$1
rounds=${2:-3}
export WEFT_UCX_PLUGIN=$build/libweft_ucx.so.0 WEFT_OFI_PLUGIN=$build/libweft_ofi.so.0
port=13400

own() {
  echo "--- weft $*"
  timeout 60 "$build/bench/bench_transport" "$@"
}

# perftest TLS TEST SIZE COUNT
perftest() {
  port=$((port + 1))
  UCX_TLS=$1 timeout 60 ucx_perftest -p $port -c 1 >/dev/null 2>&1 &
  sleep 0.5 # it has no way to tell that it listens
  echo "--- ucx_perftest $*"
  UCX_TLS=$1 timeout 60 ucx_perftest localhost -p $port -t "$2" -s "$3" -n "$4" -c 0 -f | tail -n 1
  wait
}

pingpong() {
  port=$((port + 1))
  timeout 60 taskset -c 1 fi_pingpong -B $port -p "tcp;ofi_rxm" -e rdm -I 2000 -S "$1" >/dev/null 2>&1 &
  sleep 0.5
  echo "--- fi_pingpong $1"
  timeout 60 taskset -c 0 fi_pingpong -P $port -p "tcp;ofi_rxm" -e rdm -I 2000 -S "$1" 127.0.0.1 | tail -n 1
  wait
}

for ((round = 0; round < rounds; round++)); do
  own ucx allocate TLS=posix,self
  perftest posix,self ucp_put_lat 8 1000000
  perftest posix,self ucp_put_bw 1048576 10000
  own ucx TLS=tcp
  perftest tcp ucp_put_lat 8 50000
  perftest tcp ucp_put_bw 1048576 2000
  own ofi provider=tcp
  pingpong 8
  pingpong 1048576
done
