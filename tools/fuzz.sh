#!/usr/bin/env bash
# Searches one parser of foreign bytes with libFuzzer, under the address and undefined-behaviour sanitizers.
#   tools/fuzz.sh TARGET SECONDS [LIBFUZZER_FLAG...]     without arguments: the names of the targets
# Needs clang (Debian: clang-19 and libclang-rt-19-dev); CXX_FUZZ names another one. The corpus grows in build-fuzz/corpus/TARGET; an
# input that breaks a parser is kept in build-fuzz/found/TARGET: mend the parser, then move it to fuzz/regressions/TARGET.
# Exit code 0: nothing found.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${LOCKSTEP_FUZZ_BUILD:-build-fuzz}
compiler=${CXX_FUZZ:-clang++-19}
command -v "$compiler" >/dev/null || { echo "fuzz: no $compiler; install clang-19 libclang-rt-19-dev, or set CXX_FUZZ" >&2; exit 6; }
if [ ! -f "$build/build.ninja" ]; then
  cmake -S . -B "$build" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_C_COMPILER="${compiler/++/}" -DLOCKSTEP_ENGINE=OFF \
    -DLOCKSTEP_TESTS=OFF -DLOCKSTEP_FUZZ=ON -DLOCKSTEP_SANITIZE=address,undefined >&2
fi
cmake --build "$build" --target lockstep-fuzz >&2
if [ $# -lt 2 ]; then
  LOCKSTEP_FUZZ_TARGET= "$build/lockstep-fuzz" || true
  exit 2
fi
target=$1 seconds=$2; shift 2
mkdir -p "$build/corpus/$target" "$build/inputs/$target" "$build/found/$target"
export LOCKSTEP_FUZZ_TARGET=$target
# libFuzzer takes folders, and writes into the first.
"$build/lockstep-fuzz" --inputs | while read -r file; do cp "$file" "$build/inputs/$target/${file//\//_}"; done
# Short stacks of allocations, few freed bytes and no stack frames kept: each takes much of the time, and an input that was found is run
# again without them. Counters that no input has touched are left out (lazy_counters), for which libFuzzer must be the one to see faults.
quick=malloc_context_size=4:quarantine_size_mb=16:detect_stack_use_after_return=0:handle_segv=0
export ASAN_OPTIONS=${ASAN_OPTIONS:-allocator_may_return_null=1:detect_leaks=1:$quick}
TIMEFORMAT='stat::cpu_seconds: %U %S'
time "$build/lockstep-fuzz" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=1024 \
  -max_len="$("$build/lockstep-fuzz" --max-bytes)" -lazy_counters=1 -print_final_stats=1 \
  -artifact_prefix="$build/found/$target/" "$@" "$build/corpus/$target" "$build/inputs/$target"
