#!/usr/bin/env bash
# Refuses commits whose subject is not below 72 characters. History that the base already holds is left alone.
#   tools/check_commits.sh [BASE]     default: origin/main, else the parent commit
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
base=${1:-$(git rev-parse --quiet --verify origin/main || git rev-parse --quiet --verify HEAD~ || git rev-parse HEAD)}
long=$(git log --no-merges --format='%h %s' "$base..HEAD" | awk 'length($0) - length($1) - 1 >= 72')
[ -z "$long" ] || { printf 'a commit subject has 72 characters or more:\n%s\n' "$long" >&2; exit 1; }
echo "commit subjects: ok"
