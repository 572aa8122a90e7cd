#!/usr/bin/env bash
# Searches one parser of foreign bytes with libFuzzer, under the address and undefined-behaviour sanitizers.
#   tools/fuzz.sh TARGET SECONDS [LIBFUZZER_FLAG...]     without arguments: the names of the targets
# Needs clang (Debian: clang-19 and libclang-rt-19-dev); CXX_FUZZ names another one. The corpus grows in build-fuzz/corpus/TARGET; an
# input that breaks a parser is kept in build-fuzz/found/TARGET: mend the parser, then move it to fuzz/regressions/TARGET.
# Targets that need LibTorch (.pt files) are there where LOCKSTEP_TORCH_DIR, or what ./run installed, has it; LibTorch itself is not
# searched. LOCKSTEP_FUZZ_PARTS="records models" builds these parts only (fuzz/README.md). Exit code 0: nothing found.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${LOCKSTEP_FUZZ_BUILD:-build-fuzz}
compiler=${CXX_FUZZ:-clang++-19}
command -v "$compiler" >/dev/null || { echo "fuzz: no $compiler; install clang-19 libclang-rt-19-dev, or set CXX_FUZZ" >&2; exit 6; }
export LOCKSTEP_TORCH_DIR=${LOCKSTEP_TORCH_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/lockstep/torch-2.11.0}
engine=OFF
if [ -d "$LOCKSTEP_TORCH_DIR" ]; then engine=ON; fi
if [ ! -f "$build/build.ninja" ]; then
  cmake -S . -B "$build" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_C_COMPILER="${compiler/++/}" -DLOCKSTEP_ENGINE=$engine \
    -DLOCKSTEP_TESTS=OFF -DLOCKSTEP_FUZZ=ON -DLOCKSTEP_SANITIZE=address,undefined >&2
fi
parts=${LOCKSTEP_FUZZ_PARTS:-data models records programs}
# shellcheck disable=SC2086  # words
cmake --build "$build" --target $(printf 'lockstep-fuzz-%s ' $parts) >&2
# Without a target the program ends with an error that names them all.
names_of() { { LOCKSTEP_FUZZ_TARGET='' "$build/lockstep-fuzz-$1" 2>&1 || true; } | sed -n 's/.*must be one of://p'; }
target=${1:-} program=
known=
for part in $parts; do
  names=$(names_of "$part")
  known+=$names
  case "$names " in *" $target "*) program=$build/lockstep-fuzz-$part ;; esac
done
if [ $# -lt 2 ] || [ -z "$program" ]; then
  echo "fuzz: TARGET must be one of:$known" >&2
  exit 2
fi
seconds=$2; shift 2
mkdir -p "$build/corpus/$target" "$build/inputs/$target" "$build/found/$target"
export LOCKSTEP_FUZZ_TARGET=$target
# libFuzzer takes folders, and writes into the first.
"$program" --inputs | while read -r file; do cp "$file" "$build/inputs/$target/${file//\//_}"; done
# LibTorch leaks its archive of each .pt file that it refuses, and a search for leaks behind each of them takes nearly all the time: of
# such targets they are searched for at the end alone, and known by the stacks of allocations.
leaks=1 stacks=0
case $target in pt | pt_*) leaks=0 stacks=4 ;; esac
# Else no such stacks, and few freed bytes and no stack frames kept: each takes much of the time, and an input that was found is run again
# with all of them: ASAN_OPTIONS= LOCKSTEP_FUZZ_TARGET=$target $program INPUT.
quick=malloc_context_size=$stacks:quarantine_size_mb=16:detect_stack_use_after_return=0
export ASAN_OPTIONS=${ASAN_OPTIONS:-allocator_may_return_null=1:detect_leaks=1:$quick}
export LSAN_OPTIONS=suppressions=$PWD/tools/lsan-suppressions.txt:print_suppressions=0
TIMEFORMAT='stat::cpu_seconds: %U %S'
# Names of functions are not looked up, and the corpus is not read again: nobody else adds to it.
time "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=1024 -print_funcs=0 -reload=0 \
  -max_len="$("$program" --max-bytes)" -print_final_stats=1 -detect_leaks=$leaks \
  -artifact_prefix="$build/found/$target/" "$@" "$build/corpus/$target" "$build/inputs/$target"
