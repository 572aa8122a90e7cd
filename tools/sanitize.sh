#!/usr/bin/env bash
# Builds under a sanitizer and runs the tests under it. Made for a nightly job: each part takes many minutes.
#   tools/sanitize.sh address         torch-free half and all its tests under AddressSanitizer and UBSan
#   tools/sanitize.sh thread          its programs with threads (loader, record, launch) under ThreadSanitizer
#   tools/sanitize.sh comm-address    collectives and store, which need LibTorch, under AddressSanitizer and UBSan
#   tools/sanitize.sh comm-thread     the same under ThreadSanitizer; LibTorch itself is not instrumented
#   tools/sanitize.sh all             one after the other
# NAMES behind the part choose among its tests: tools/sanitize.sh thread data. Build folders are build-sanitize-PART.
# Exit code 0: nothing found; 1: a test failed or a sanitizer spoke.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# What a sanitizer says goes to the test's output and ends the process with a code that no test expects.
export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1:exitcode=99
export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=0:exitcode=99:second_deadlock_stack=1:suppressions=$PWD/tools/tsan-suppressions.txt

# part SANITIZERS ON|OFF (LibTorch) DEFAULT_TESTS...
part() {
  local name=$1 sanitizers=$2 engine=$3; shift 3
  local build=build-sanitize-$name targets=() pattern
  mkdir -p "$build"
  cmake -S . -B "$build" -G Ninja -DLOCKSTEP_ENGINE="$engine" -DLOCKSTEP_SANITIZE="$sanitizers" >"$build/configure.log" ||
    { cat "$build/configure.log"; exit 1; }
  if [ $# -gt 0 ]; then
    for test in "$@"; do targets+=("test_$test"); done
    if [ "$engine" = OFF ]; then targets+=(lockstep); fi
    pattern="^($(IFS='|'; echo "$*"))(_[0-9]+)?\$"
  else
    pattern='.*'
  fi
  cmake --build "$build" ${targets[0]:+--target "${targets[@]}"}
  # ThreadSanitizer needs the memory layout without randomisation on recent kernels.
  setarch "$(uname -m)" --addr-no-randomize ctest --test-dir "$build" --output-on-failure --no-tests=error -R "$pattern" \
    --exclude-regex '^(setup|includes|checks|stray_tests|unused|fuzz_table|storm|additions)$' --timeout 3600
}

run() {
  local name=$1; shift
  case $name in
    address) part address address,undefined OFF "$@" ;;
    thread) if [ $# -eq 0 ]; then set -- core data record commands; fi; part thread thread OFF "$@" ;;
    comm-address) if [ $# -eq 0 ]; then set -- comm; fi; part comm-address address,undefined ON "$@" ;;
    comm-thread) if [ $# -eq 0 ]; then set -- comm; fi; part comm-thread thread ON "$@" ;;
    all) for each in address thread comm-address comm-thread; do run "$each"; done ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
  esac
}
run "${1:-}" "${@:2}"
