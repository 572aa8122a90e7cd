#!/usr/bin/env bash
# Refuses commits whose subject is not below 72 characters. History that the base already holds is left alone.
#   tools/check_commits.sh [BASE]     default: what tools/base_commit.sh says; without any base, the last commit alone
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
base=${1:-$(tools/base_commit.sh)}
subjects=$(git log --no-merges --format='%h %s' ${base:+"$base.."}HEAD)
long=$(awk 'length($0) - length($1) - 1 >= 72' <<<"$subjects")
[ -z "$long" ] || { printf 'a commit subject has 72 characters or more:\n%s\n' "$long" >&2; exit 1; }
echo "commit subjects: ok ($(grep -c . <<<"$subjects" || true) looked at)"
