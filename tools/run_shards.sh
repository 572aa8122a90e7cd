#!/usr/bin/env bash
# Runs a test program of GoogleTest in N parts beside each other, each with results of its own: XML.0, XML.1, ...
#   tools/run_shards.sh N XML PROGRAM
set -u
jobs=()
for ((i = 0; i < $1; ++i)); do
  GTEST_TOTAL_SHARDS=$1 GTEST_SHARD_INDEX=$i "$3" "--gtest_output=xml:$2.$i" &
  jobs+=($!)
done
code=0
for job in "${jobs[@]}"; do wait "$job" || code=$?; done
exit $code
