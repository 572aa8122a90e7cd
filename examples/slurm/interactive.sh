#!/bin/bash
# Asks for nodes and opens a shell in the allocation; there, `srun lockstep ...` runs on all of them.
#   examples/slurm/interactive.sh [OPTIONS of salloc] [-- COMMAND]
# For example, in that shell:
#   srun lockstep doctor --nodes
#   srun lockstep train clip --config recipe.toml --max-steps 20
set -u
options=(--nodes=2 --ntasks-per-node=4 --gpus-per-node=4 --time=01:00:00)
while [ $# -gt 0 ] && [ "$1" != -- ]; do options+=("$1"); shift; done
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- "${SHELL:-/bin/bash}"
exec salloc "${options[@]}" "$@"
