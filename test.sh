#!/usr/bin/env bash
# Installs what the tests need, builds everything, and runs every test: ./test.sh [--quick] [arguments of ctest]
# The stages: release; the release build's short tests under valgrind; AddressSanitizer with UndefinedBehaviorSanitizer;
# ThreadSanitizer (both without the tests labelled slow); a build by clang, in which the fuzz targets run for some
# seconds each. --quick: the release stage alone. At the end a table says what each test proves, and how long it took in
# each stage. What the tests of a stage leave behind is a failure too. The last line says "N passed, N failed".
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$root"
export PATH=$root/build/tools/bin:$PATH
export UBSAN_OPTIONS=print_stacktrace=1
jobs=$(nproc)

stages=(release valgrind asan tsan clang)
if [ "${1:-}" = --quick ]; then
  stages=(release)
  shift
fi

scripts/install-deps.sh --test
results=$root/build/test-results
rm -rf "$results"
mkdir -p "$results"

# Everything that a test makes stands in here; that it is in the environment tells its processes from others.
touch "$results/began"
temporary=$(mktemp -d -t weft-tests.XXXXXX)
trap 'rm -rf "$temporary"' EXIT

# Older sanitizer runtimes cannot place their shadow where Ubuntu 24.04 puts a process at random.
fixed_addresses=()
if setarch -R true 2>/dev/null; then fixed_addresses=(setarch -R); fi

# The build that a stage runs, which is that of its name but for valgrind.
preset_of() {
  if [ "$1" = valgrind ]; then echo release; else echo "$1"; fi
}

build() {
  cmake --preset "$1" -DWEFT_TESTS=ON -DWEFT_WERROR=ON && cmake --build --preset "$1" -j "$jobs"
}

# run_tests STAGE [ctest arguments]
run_tests() {
  local stage=$1 wrapper=() choice=()
  shift
  case $stage in
    valgrind) choice=(-C valgrind -L '^valgrind$') ;;
    asan | tsan)
      wrapper=("${fixed_addresses[@]}")
      choice=(-LE '^slow$')
      ;;
    clang) choice=(-L '^fuzz$') ;;
  esac
  TMPDIR=$temporary "${wrapper[@]}" ctest --preset "$(preset_of "$stage")" -j "$jobs" "${choice[@]}" \
    --test-output-size-passed 65536 --test-output-size-failed 1048576 --output-junit "$results/$stage.xml" "$@"
}

# Runs a stage; where it did not come to its tests, that counts as one failure.
run_stage() {
  local stage=$1 log=$results/$1-build.log start=$SECONDS
  shift
  if ! build "$(preset_of "$stage")" >"$log" 2>&1; then
    tail -n 60 "$log"
    echo "== $stage: the build failed after $((SECONDS - start)) s; all of its output is in $log"
    touch "$results/$stage.broken"
    return
  fi
  local built=$((SECONDS - start))
  cp "build/$(preset_of "$stage")/tests.tsv" "$results/$stage.tsv"
  run_tests "$stage" "$@" || true # what failed is in the results
  [ -s "$results/$stage.xml" ] || touch "$results/$stage.broken"
  python3 scripts/left-behind.py "$temporary" "$results/began" >"$results/$stage.left" || true # likewise
  echo "== $stage: built in $built s, tested in $((SECONDS - start - built)) s" | tee -a "$results/times"
}

for stage in "${stages[@]}"; do
  run_stage "$stage" "$@"
done
python3 scripts/sum-tests.py "$results"
