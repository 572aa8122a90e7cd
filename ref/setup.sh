#!/usr/bin/env bash
# Installs the Python programs we compare with into the user's cache folder and prints the PYTHONPATH that finds them.
#   export PYTHONPATH=$(ref/setup.sh); python3 ref/make_clip_goldens.py
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../tools/setup.sh"
find_torch
pip_into "$LOCKSTEP_CACHE/ref-3.3.0-clap" "the reference programs (open_clip_torch 3.3.0, transformers 5.23.0 and what they need)" \
  ref/requirements.txt
pip_into "$LOCKSTEP_CACHE/ref-megatron-0.16.1" "the data set code of megatron-core 0.16.1" ref/megatron-requirements.txt
pip_into "$LOCKSTEP_CACHE/ref-sentencepiece-0.2.3" "sentencepiece 0.2.3" ref/sentencepiece-requirements.txt
pip_into "$LOCKSTEP_CACHE/ref-lmdb-3.0.0" "lmdb 3.0.0 and msgpack 1.2.4" ref/lmdb-requirements.txt
echo "$LOCKSTEP_CACHE/ref-lmdb-3.0.0:$LOCKSTEP_CACHE/ref-3.3.0-clap:$LOCKSTEP_CACHE/ref-sentencepiece-0.2.3:$LOCKSTEP_CACHE/ref-megatron-0.16.1:$LOCKSTEP_TORCH_DIR"
