#!/usr/bin/env bash
# Looks for mistakes with clang-tidy (.clang-tidy says which), without compiling anything.
#   tools/tidy.sh [BASE]      torch-free sources that differ from a commit (default: tools/base_commit.sh), and those not committed
#   tools/tidy.sh --all       every torch-free source
#   tools/tidy.sh --engine [BASE|--all]   those that include LibTorch as well; LOCKSTEP_TORCH_DIR says where it is
# Files of one folder are looked at together, as unity builds compile them: a header costs its seconds once.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
command -v clang-tidy >/dev/null || { echo "tools/tidy.sh: clang-tidy is not installed (Debian: apt-get install clang-tidy)" >&2; exit 6; }
engine=OFF
[ "${1:-}" = --engine ] && { engine=ON; shift; }
folder=build/tidy-$engine
mkdir -p "$folder"
cmake -S . -B "$folder" -G Ninja -DLOCKSTEP_ENGINE=$engine -DLOCKSTEP_UNITY=OFF >"$folder/configure.log" || { cat "$folder/configure.log" >&2; exit 6; }
ninja -C "$folder" lockstep_version_info >>"$folder/configure.log"
if [ "${1:-}" = --all ]; then
  git ls-files '*.cpp' >"$folder/files"
else
  base=${1:-$(tools/base_commit.sh)}
  [ -n "$base" ] || { base=HEAD; echo "clang-tidy: the last commit has no parent here: only what is not committed is looked at"; }
  { git diff --name-only --diff-filter=d "$(git merge-base "$base" HEAD)" -- '*.cpp'; git ls-files --others --exclude-standard '*.cpp'; } |
    sort -u >"$folder/files"
fi
python3 tools/tidy_units.py "$folder" <"$folder/files" >"$folder/units"
[ -s "$folder/units" ] || { echo "clang-tidy: no file to look at"; exit 0; }
xargs -P "$(nproc)" -I{} clang-tidy -p "$folder/units.d" --quiet {} <"$folder/units" >"$folder/findings" 2>"$folder/errors" || true
# clang 14 does not know all of C++20 (captured structured bindings, views): what only it refuses is counted, not a finding.
unknown=$(grep -c 'clang-diagnostic-error' "$folder/findings" || true)
[ "$unknown" = 0 ] || echo "clang-tidy: $unknown places that this clang cannot read; see $folder/findings"
if grep 'warnings-as-errors\]' "$folder/findings" | sort -u; then exit 1; fi
echo "clang-tidy: $(wc -l <"$folder/files") files, no findings"
