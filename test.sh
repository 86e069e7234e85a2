#!/usr/bin/env bash
# Installs what the tests need, builds everything, and runs every test: ./test.sh [--quick] [arguments of ctest]
# The stages: release; AddressSanitizer with UndefinedBehaviorSanitizer; ThreadSanitizer (both without the tests
# labelled slow); a build by clang, in which the fuzz targets run for some seconds each. --quick: the release stage
# alone. The last line says "N passed, N failed".
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$root"
export PATH=$root/build/tools/bin:$PATH
export UBSAN_OPTIONS=print_stacktrace=1
jobs=$(nproc)

stages=(release asan tsan clang)
if [ "${1:-}" = --quick ]; then
  stages=(release)
  shift
fi

scripts/install-deps.sh --test
results=$root/build/test-results
rm -rf "$results"
mkdir -p "$results"

# Older sanitizer runtimes cannot place their shadow where Ubuntu 24.04 puts a process at random.
fixed_addresses=()
if setarch -R true 2>/dev/null; then fixed_addresses=(setarch -R); fi

build() {
  cmake --preset "$1" -DWEFT_TESTS=ON -DWEFT_WERROR=ON && cmake --build --preset "$1" -j "$jobs"
}

# run_tests STAGE [ctest arguments]
run_tests() {
  local stage=$1 wrapper=() choice=()
  shift
  case $stage in
    asan | tsan)
      wrapper=("${fixed_addresses[@]}")
      choice=(-LE '^slow$')
      ;;
    clang)
      choice=(-L '^fuzz$')
      ;;
  esac
  "${wrapper[@]}" ctest --preset "$stage" -j "$jobs" "${choice[@]}" --output-junit "$results/$stage.xml" "$@"
}

# Runs a stage; where it did not come to its tests, that counts as one failure.
run_stage() {
  local stage=$1 log=$results/$1-build.log start=$SECONDS
  shift
  if ! build "$stage" >"$log" 2>&1; then
    tail -n 60 "$log"
    echo "== $stage: the build failed after $((SECONDS - start)) s; all of its output is in $log"
    touch "$results/$stage.broken"
    return
  fi
  local built=$((SECONDS - start))
  run_tests "$stage" "$@" || true # what failed is in the results
  [ -s "$results/$stage.xml" ] || touch "$results/$stage.broken"
  echo "== $stage: built in $built s, tested in $((SECONDS - start - built)) s"
}

for stage in "${stages[@]}"; do
  run_stage "$stage" "$@"
done
python3 scripts/sum-tests.py "$results"
