#!/usr/bin/env bash
# Prints the commit that checks of what has changed compare with: where HEAD left origin/main; the parent where HEAD is
# on origin/main already (a fresh clone, a merged branch) or there is no origin/main. Nothing where HEAD has no parent.
set -euo pipefail
head=$(git rev-parse HEAD)
base=$(git merge-base origin/main HEAD 2>/dev/null || true)
[ -n "$base" ] && [ "$base" != "$head" ] || base=$(git rev-parse --quiet --verify HEAD~ || true)
[ -z "$base" ] || echo "$base"
