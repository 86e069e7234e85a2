#!/usr/bin/env bash
# Installs what the tests need, builds, and runs them: ./test.sh [--all] [--strict] [--stages LIST] [arguments of ctest]
#   without an option  runs the stages fast and valgrind without the tests in tests/long.txt; takes some minutes
#   --all              runs every test in every stage, as CI does
#   --strict           for developers of Weft: warnings end the build, and tests of 10 s or more in the stage fast fail
#   --stages LIST      runs only these stages, for example --stages release,tsan
#   --prepare          only installs and builds what the stages need, and runs no test
#   --help             prints this text, and runs nothing
# The stages:
#   fast      the release build's tests that take less than 10 s
#   release   all tests of the release build
#   valgrind  the short tests of the release build under memcheck
#   trixie    the stages fast and torch in a bare root of Debian 13; if the root cannot be made, skipped with the reason
#   torch     the tests of python/compat that need torch, with that of the system's packages; --all has it in trixie
#   asan      a build with AddressSanitizer and UndefinedBehaviorSanitizer, without the tests labelled slow
#   tsan      a build with ThreadSanitizer, without the tests labelled slow and those in tests/no-tsan.txt
#   clang     a build by clang, in which each fuzz target runs for some seconds
#   arm64     the short tests of a cross build for arm64, run by qemu-user; not part of --all, since it needs a special
#             root: scripts/in-release.sh trixie-arm64 ./test.sh --stages arm64
# At the end a table says what each test proves, and how long it took in each stage. Processes and files that the tests
# of a stage leave behind count as a failure. If at most five tests of a stage fail, they run again, one at a time. A
# test that then passes twice counts as passed, and is named as unsteady with its output; but it stays failed if a
# sanitizer or valgrind had found something. The last line says "N passed, N failed".
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$root"
export PATH=$root/build/tools/bin:$PATH
export UBSAN_OPTIONS=print_stacktrace=1
compilers=$(nproc)
skipped=77 # the exit status of a test that lacks something it needs
most_again=5 # the most failed tests of a stage that run again: if more fail, something is broken

# trixie comes early: while it installs packages and its tests wait, the later stages' builds use the processors.
all=(release valgrind trixie asan tsan clang)
stages=(fast valgrind)
without=(-LE '^long$')
strict=()
prepare=no
while [ $# -gt 0 ]; do
  case $1 in
    --all) stages=("${all[@]}") without=() ;;
    --strict) strict=(--strict) ;;
    --prepare) prepare=yes ;;
    --help | -h)
      sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
      exit
      ;;
    --stages)
      IFS=, read -r -a stages <<<"${2:?--stages wants names, such as release,tsan}"
      without=()
      shift
      ;;
    *) break ;;
  esac
  shift
done
for stage in "${stages[@]}"; do
  case " fast torch arm64 ${all[*]} " in
    *" $stage "*) ;;
    *) echo "test.sh: there is no stage '$stage': the stages are fast torch arm64 ${all[*]}" >&2 && exit 2 ;;
  esac
done
needs=--test
if [ "${stages[*]}" = arm64 ]; then needs=--arm64; fi

scripts/install-deps.sh "$needs"
if [[ " ${stages[*]} " = *" torch "* ]]; then scripts/install-deps.sh --torch; fi
results=$root/build/test-results
rm -rf "$results"
mkdir -p "$results"

# Tests make all their files in this folder. Its path in their environment identifies the tests' processes.
touch "$results/began"
temporary=$(mktemp -d -t weft-tests.XXXXXX)
chmod 711 "$temporary" # for tests that become another user
ahead= # the process that builds ahead
# shellcheck disable=SC2317 # called by the trap
clean_up() {
  if [ -n "$ahead" ]; then kill -- "-$ahead" 2>/dev/null || true; fi
  rm -rf "$temporary"
}
trap clean_up EXIT

# Older sanitizer runtimes cannot place their shadow memory with the address randomisation of Ubuntu 24.04.
fixed_addresses=()
if setarch -R true 2>/dev/null; then fixed_addresses=(setarch -R); fi

# The build of a stage.
preset_of() {
  case $1 in
    fast | valgrind | torch) echo release ;;
    *) echo "$1" ;;
  esac
}

build() {
  local preset werror=OFF targets=(all)
  preset=$(preset_of "$1")
  if [ ${#strict[@]} -gt 0 ]; then werror=ON; fi
  # Builds all layers with the warnings of clang; gcc has built everything else.
  if [ "$1" = clang ]; then targets=(tests/fuzz/all); fi
  cmake --preset "$preset" -DWEFT_TESTS=ON -DWEFT_WERROR=$werror || return
  cmake --build --preset "$preset" -j "$compilers" --target "${targets[@]}" || return
  # This is not compiled beside the stage's tests: they leave it no processor, and it took longer than a test may.
  case $1 in
    asan) prepare_python asan --sanitized ;;
    release | torch) prepare_python release ;;
  esac
}

# The extension of Python, with what a build has made: prepare_python PRESET [arguments of package.py]
# What fails here fails in the test too, which says why.
prepare_python() {
  WEFT_SOURCE=$root tests/python/package.py "build/$1" "${@:2}" --prepare || true
}

# The build of a stage: its output in the stage's log, its exit status and seconds in a file beside it.
build_stage() {
  local stage=$1 status=0 start=$SECONDS
  build "$stage" >"$results/$stage-build.log" 2>&1 || status=$?
  echo "$status $((SECONDS - start))" >"$results/$stage.built.new"
  mv "$results/$stage.built.new" "$results/$stage.built"
}

# in_other_release RELEASE [arguments]: runs this script in a root of another release.
in_other_release() {
  scripts/in-release.sh "$1" ./test.sh "${strict[@]}" "${@:2}"
}

# Builds one stage after the other while the tests of earlier stages wait for time to pass: with the processor time that
# those leave.
build_ahead() {
  local stage
  trap - EXIT
  chrt --idle --pid 0 "$BASHPID" 2>/dev/null || renice -n 19 "$BASHPID" >/dev/null
  for stage in "$@"; do
    case $stage in
      valgrind) ;; # runs the build of release
      trixie) in_other_release "$stage" --prepare --stages fast,torch >/dev/null 2>&1 || true ;;
      *) build_stage "$stage" ;;
    esac
  done
}

# run_tests STAGE [ctest arguments]
run_tests() {
  local stage=$1 wrapper=() choice=() tests=$((3 * compilers)) # tests mostly wait
  shift
  case $stage in
    fast) choice=(-LE '^long$') ;;
    valgrind) # its tests compute all the time
      tests=$compilers
      choice=(-C valgrind -L '^valgrind$' "${without[@]}")
      ;;
    asan)
      wrapper=("${fixed_addresses[@]}")
      choice=(-LE '^slow$')
      ;;
    tsan) # its tests compute five times as long
      tests=$((2 * compilers))
      wrapper=("${fixed_addresses[@]}")
      choice=(-LE '^(slow|no_tsan)$')
      ;;
    arm64) choice=(-LE '^slow$') ;;
    clang) choice=(-L '^fuzz$') ;;
    torch) choice=(-L '^torch$') ;;
  esac
  local run=(env TMPDIR="$temporary" "${wrapper[@]}" ctest --preset "$(preset_of "$stage")"
    --test-output-size-passed 65536 --test-output-size-failed 1048576)
  if "${run[@]}" -j "$tests" "${choice[@]}" --output-junit "$results/$stage.xml" "$@"; then return; fi
  # Most tests wait for time to pass, and many share few processors. A test that failed beside others runs again alone.
  if [ "$(scripts/sum-tests.py --failures "$results/$stage.xml")" -gt "$most_again" ]; then return; fi
  "${run[@]}" "${choice[@]}" -j 1 --rerun-failed --repeat until-fail:2 --output-junit "$results/$stage.alone"
}

# If a stage did not reach its tests, that counts as one failure; the summary shows the first errors of its output:
# broken STAGE LOG SECONDS
broken() {
  tail -n 60 "$2"
  echo "== $1: failed before its tests, after $3 s; all of its output is in $2"
  grep -m 3 -E '\berror: |^CMake Error|^E: ' "$2" >"$results/$1.broken" || tail -n 1 "$2" >"$results/$1.broken"
}

# Sets `built` to the seconds that the build of a stage took; waits for a build that runs ahead. False: it failed.
await_build() {
  local stage=$1 status
  if [ "$stage" != valgrind ]; then
    if [ ! -e "$results/$stage.built" ] && [ -n "$ahead" ]; then echo "== $stage: waiting for its build"; fi
    while [ ! -e "$results/$stage.built" ] && [ -n "$ahead" ] && kill -0 "$ahead" 2>/dev/null; do sleep 1; done
  fi
  if [ ! -e "$results/$stage.built" ]; then build_stage "$stage"; fi
  read -r status built <"$results/$stage.built"
  return "$status"
}

run_stage() {
  local stage=$1 log=$results/$1-build.log built=0 warnings start
  shift
  if ! await_build "$stage"; then
    broken "$stage" "$log" "$built"
    return
  fi
  start=$SECONDS
  warnings=$(grep -cE ': warning[ :]' "$log" || true)
  if [ "$warnings" -gt 0 ]; then echo "== $stage: $warnings warnings, which stand in $log"; fi
  cp "build/$(preset_of "$stage")/tests.tsv" "$results/$stage.tsv"
  run_tests "$stage" "$@" || true # the results name the failed tests
  [ -s "$results/$stage.xml" ] || touch "$results/$stage.broken"
  python3 scripts/left_behind.py "$temporary" "$results/began" >"$results/$stage.left" || true # the same
  echo "== $stage: built in $built s, tested in $((SECONDS - start)) s" | tee -a "$results/times"
}

# Runs the stages fast and torch in a root of the release that the stage is named after; adds their results to this run.
# With arguments of ctest it runs fast alone.
run_other_release() {
  local release=$1 log=$results/$1.log start=$SECONDS status=0 parts=(fast) theirs part name kind
  shift
  if [ $# -eq 0 ]; then parts+=(torch); fi
  theirs=$(scripts/in-release.sh --where "$release")/build/test-results
  rm -rf "$theirs"
  in_other_release "$release" --stages "$(IFS=,; echo "${parts[*]}")" "$@" >"$log" 2>&1 || status=$?
  if [ "$status" -eq $skipped ]; then
    tail -n 1 "$log" | tee "$results/$release.skipped"
    return
  fi
  for part in "${parts[@]}"; do
    name=$part
    if [ "$part" = fast ]; then name=$release; fi
    if [ -s "$theirs/$part.xml" ]; then
      for kind in xml tsv left; do cp "$theirs/$part.$kind" "$results/$name.$kind"; done
      if [ -e "$theirs/$part.alone" ]; then cp "$theirs/$part.alone" "$results/$name.alone"; fi
    else
      broken "$name" "$log" $((SECONDS - start))
    fi
  done
  echo "== $release: installed, built and tested in $((SECONDS - start)) s" | tee -a "$results/times"
}

if [ $prepare = yes ]; then
  for stage in "${stages[@]}"; do
    if [ "$stage" != trixie ]; then build "$stage"; fi
  done
  exit
fi
if [ "${stages[0]}" != trixie ]; then
  echo "== ${stages[0]}: building on $compilers processors, for some minutes; the output goes to" \
    "build/test-results/${stages[0]}-build.log"
  build_stage "${stages[0]}"
fi
if [ ${#stages[@]} -gt 1 ]; then
  set -m # starts it in its own process group, which can be ended as a whole
  build_ahead "${stages[@]:1}" &
  ahead=$!
  set +m
fi
for stage in "${stages[@]}"; do
  if [ "$stage" = trixie ]; then
    run_other_release "$stage" "$@"
  else
    run_stage "$stage" "$@"
  fi
done
python3 scripts/sum-tests.py "${strict[@]}" "$results"
