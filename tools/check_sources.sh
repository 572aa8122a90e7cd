#!/usr/bin/env bash
# The checks of ./test that read sources and run no test: includes, pages, commits, layout, unused names, mistakes that
# clang-tidy finds. What cannot be checked, because its tool is missing, is named. Ends with 1 where something is found.
#   tools/check_sources.sh [BUILD]    BUILD: where both programs are built, for the search for unused names
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
say() { printf '\n== %s\n' "$*" >&2; }

say "checking includes, pages, commits and the layout of the sources"
python3 tools/check_includes.py
python3 tools/check_docs.py
tools/check_commits.sh
if [ -n "${1:-}" ]; then python3 tools/find_unused.py "$1"; fi
status=0
reason=$(tools/format.sh --check 2>&1) || status=$?
case $status in
  0) echo "layout of the sources: ok" ;;
  6) echo "not checked: the layout of the sources, $reason" ;;
  *) printf '%s\n' "$reason" >&2; exit 1 ;;
esac
if command -v clang-tidy >/dev/null; then
  say "looking for mistakes in what differs from the parent commit"
  tools/tidy.sh
else
  echo "not checked: mistakes in what has changed, no clang-tidy"
fi
