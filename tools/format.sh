#!/usr/bin/env bash
# Lays out the C++ sources as .clang-format says.
#   tools/format.sh           rewrites what differs
#   tools/format.sh --check   names what differs and ends with 1
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# Versions of clang-format lay out the same code differently: this is Debian 12's.
wanted=14
command -v clang-format-$wanted >/dev/null && program=clang-format-$wanted || program=clang-format
command -v $program >/dev/null || { echo "no clang-format (Debian: apt-get install clang-format-$wanted)" >&2; exit 6; }
version=$($program --version | sed -E 's/.*version ([0-9]+).*/\1/')
[ "$version" = "$wanted" ] || { echo "no clang-format $wanted: clang-format is version ${version:-?}" >&2; exit 6; }
mode=(-i)
[ "${1:-}" = --check ] && mode=(--dry-run --Werror --ferror-limit=1)
git ls-files -z --cached --others --exclude-standard '*.cpp' '*.h' '*.cu' | while IFS= read -r -d '' file; do
  [ -e "$file" ] && printf '%s\0' "$file"
done | xargs -0 -P "$(nproc)" -n 20 "$program" "${mode[@]}"
