# The check's line is in the report of a batch of 48 and not in that of a batch of 64.
lockstep=$LOCKSTEP_BUILD/lockstep
for batch in 48 64; do
  { echo step,step_time_ms,global_batch; seq -f "%g,250,$batch" 0 59; } > steps.csv
  "$lockstep" report steps.csv --nodes 1 --devices 1 --model toy -o report --format md > "batch$batch.txt"
done
grep -q 'T01 odd-batch: .*the global batch of 48 is no power of two' batch48.txt
if grep -q 'T01' batch64.txt; then exit 1; fi
