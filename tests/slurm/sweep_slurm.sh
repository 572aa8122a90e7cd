#!/usr/bin/env bash
# What sweep_slurm_test.cpp runs beside a SLURM cluster of four nodes: sweeps of the demo CLIP, submitted, broken, resumed, collected.
#   sweep_slurm.sh LOCKSTEP REPOSITORY FOLDER      leaves what the commands said, and the sweeps, in FOLDER
set -u
lockstep=$1 repository=$2 folder=$3
cd "$folder" || exit 1

# keep NAME WORDS...: runs lockstep; its output goes to NAME.out, its exit code to NAME.code.
keep() {
  local name=$1; shift
  "$lockstep" "$@" >"$name.out" 2>&1
  echo $? >"$name.code"
}
# wait_for SWEEP CONDITION...: until the condition holds. A slow machine may take its time; we give up when no file of the sweep grew for five minutes.
wait_for() {
  local sweep=$1 before='' now last_growth=$SECONDS; shift
  until "$@"; do
    now=$(find "$sweep" -type f -printf '%p %s\n' 2>/dev/null | sort)
    [ "$now" = "$before" ] || { before=$now last_growth=$SECONDS; }
    if ((SECONDS - last_growth > 300)); then
      echo "sweep_slurm: nothing moves in $sweep and this is not so yet: $*" >&2
      return 1
    fi
    sleep 0.3
  done
}
# is_idle SWEEP: no job of the sweep waits or runs.
is_idle() { "$lockstep" sweep status "$1" --json >"$1.json" && ! grep -qE '"state": "(queued|running|submitting)"' "$1.json"; }
has_lines() { [ "$(cat "$1" 2>/dev/null | wc -l)" -ge "$2" ]; }
is_cancelled() { grep -q '"event":"end"' cancelled/jobs/0001.events.jsonl && [ -z "$(squeue -h -t PENDING,RUNNING,COMPLETING)" ]; }
wait_until_idle() { wait_for "$1" is_idle "$1"; }
wait_for_lines() { wait_for "${1%%/*}" has_lines "$1" "$2"; }

"$lockstep" data make-shapes shapes --samples 192 --val-samples 30 --samples-per-shard 24 --image-size 64 >/dev/null || exit 1

cat >common.toml <<TOML
model = "$repository/examples/demo/model.json"
train-data = "$folder/shapes/train-{000000..000007}.tar"
train-num-samples = 192
batch-size = 4
max-steps = "STEPS"
epochs = 10
lr = "1e-3 * nodes"
warmup = 2
workers = 1
threads = 1
device = "cpu"
precision = "fp32"
log-every-n-steps = 1
save-frequency = 0
[slurm]
partition = "debug"
time = "00:10:00"
[billing]
unit = "core-hours"
per-node-hour = 8
TOML

# Who is who: ranks of a step of srun, ranks of launchers in a step, a batch shell without a step, a step smaller than its job.
dry_run=("$lockstep" train clip --dry-run --json --train-data x.tar --model ViT-B-32)
srun -w node[1-2] --ntasks-per-node=2 "${dry_run[@]}" >ranks-step.out 2>&1
srun -w node[1-2] --ntasks-per-node=1 "$lockstep" launch --nproc-per-node 2 --program /bin/sh -- \
  -c 'echo $RANK of $WORLD_SIZE on $(hostname) at $MASTER_ADDR' >ranks-launch.out 2>&1
printf '#!/bin/bash\n%s\nsrun -N1 -n2 %s\n' "${dry_run[*]}" "${dry_run[*]}" >ranks-batch.sh
sbatch --wait -N2 --ntasks-per-node=2 --output=ranks-batch.out ranks-batch.sh >/dev/null

# 1, 2 and 4 nodes, one job at a time. The job of two nodes fails until it is mended.
{ cat <<'TOML'
name = "nodes"
out = "."
scaling = "weak"
[variables]
STEPS = "4"
[axes]
nodes = "1-4*2"
[submit]
in-flight = 1
[when."nodes == 2".slurm]
setup = ["[ -e mended ] || export LOCKSTEP_FAULT=throw"]
[train]
TOML
  cat common.toml; } >nodes.toml
keep nodes-submit sweep nodes.toml --submit
wait_until_idle nodes || exit 1
keep nodes-status sweep status nodes
cp nodes.json nodes-failed.json
keep nodes-submit-again sweep nodes.toml --submit
touch mended
keep nodes-resume sweep resume nodes
wait_until_idle nodes || exit 1
keep nodes-collect sweep collect nodes
keep nodes-report report nodes -o nodes-report
"$lockstep" report nodes --json >nodes-report.json 2>nodes-report-json.err

# The CLAP benchmark of 1 to 128 nodes, its own sweep file scaled down by variables alone: two small models on 1, 2 and 4 nodes of one rank.
sed 's/"depths": \[2, 2\]/"depths": [2, 4]/' "$repository/examples/sounds/model.json" >base.json
keep clap-submit sweep "$repository/recipes/sweeps/clap_jupiter.toml" --submit --set ACCOUNT= PARTITION=debug SCRATCH=clap NODES=1-4*2 RANKS=1 GRES= CPUS=1 \
  TINY="$repository/examples/sounds/model.json" BASE="$folder/base.json" BATCH_TINY=8 BATCH_BASE=4 STEPS=8
wait_until_idle clap/sweeps/clap-scaling || exit 1
keep clap-report report clap/sweeps/clap-scaling --protocol clap -o clap-report
"$lockstep" report clap/sweeps/clap-scaling --json >clap-report.json 2>clap-report-json.err

# The vision study of the EPICURE guide, its own sweep file scaled down by variables alone: a small network on 1 and 2 nodes of one rank, from LMDBs that
# every node stages for itself.
mkdir study-data
"$lockstep" data make-shapes study-shapes --samples 32 --val-samples 28 --image-size 32 --samples-per-shard 32 >/dev/null || exit 1
"$lockstep" data to-lmdb study-shapes/train-000000.tar study-data/train.lmdb >/dev/null || exit 1
"$lockstep" data to-lmdb study-shapes/val-000000.tar study-data/val.lmdb >/dev/null || exit 1
keep study-submit sweep "$repository/recipes/sweeps/resnet50_epicure.toml" --submit --set ACCOUNT= PARTITION=debug SCRATCH="$folder/study" \
  DATA="$folder/study-data" NODES=1-2 RANKS=1 GRES= CPUS=1 WORKERS=1 ARCH=resnet18 PIXELS=32 BATCH=4 EPOCHS=4 STAGE="$folder/study-stage" SYSTEM=onebox
wait_until_idle study/sweeps/resnet50-epicure || exit 1
keep study-report report study/sweeps/resnet50-epicure --protocol epicure-vision -o study-report
"$lockstep" report study/sweeps/resnet50-epicure --json >study-report.json 2>study-report-json.err

# The same run of 2 nodes x 2 ranks twice, as an array; the first is told to stop, as before a time limit, and requeued.
{ cat <<'TOML'
name = "stopped"
out = "."
ranks-per-node = 2
repeats = 2
[variables]
STEPS = "20"
[axes]
nodes = 2
[submit]
how = "arrays"
[train]
TOML
  cat common.toml; } >stopped.toml
keep stopped-submit sweep stopped.toml --submit
wait_for_lines stopped/runs/0001-nodes_2/steps.jsonl 2 || exit 1
job=$(sed -n 's/.*"event":"start","job":"\([^"]*\)".*/\1/p' stopped/jobs/0001.events.jsonl)
scancel -s USR1 -b "$job"
wait_until_idle stopped || exit 1
keep stopped-collect sweep collect stopped --json

# A job that is cancelled saves a checkpoint and stays cancelled.
sed -e 's/^name = .*/name = "cancelled"/; s/^STEPS = .*/STEPS = "100000"/; s/^epochs = .*/epochs = 100000/; s/^repeats = .*/repeats = 1/; s/^how = .*/how = "jobs"/' \
  stopped.toml >cancelled.toml
keep cancelled-submit sweep cancelled.toml --submit
wait_for_lines cancelled/runs/0001-nodes_2/steps.jsonl 2 || exit 1
keep cancelled-cancel sweep cancel cancelled
wait_for cancelled is_cancelled || exit 1
sleep 3  # a requeued job would show up again
squeue -h -t PENDING,RUNNING,COMPLETING >cancelled-queue.out
keep cancelled-status sweep status cancelled
exit 0
