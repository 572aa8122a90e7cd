#!/usr/bin/env bash
# What slurm_examples_test.cpp runs beside a SLURM cluster of two nodes: the scripts of examples/slurm, and the training commands of OpenCLIP's guide to
# several nodes with data, sizes and model replaced.
#   slurm_examples.sh LOCKSTEP REPOSITORY FOLDER      leaves NAME.out and NAME.code of each in FOLDER
set -u
export LOCKSTEP=$1
repository=$2 folder=$3
scripts=$repository/examples/slurm
cd "$folder" || exit 1

made=$("$LOCKSTEP" data make-shapes shapes --samples 96 --val-samples 30 --samples-per-shard 24 --image-size 64 --json) || exit 1
json_text() { sed -n "s/^ *\"$1\": \"\(.*\)\",\{0,1\}$/\1/p" <<<"$made"; }
shards=$(json_text train_shards) heldout=$(json_text heldout) classes=$(json_text class_names) templates=$(json_text templates)
model=$repository/examples/demo/model.json
small=(--model "$model" --train-num-samples 96 --batch-size 4 --warmup 2 --epochs 1 --workers 1 --threads 1 --device cpu --log-every-n-steps 1)

# keep NAME COMMAND...: its output goes to NAME.out, its exit code to NAME.code.
keep() {
  local name=$1; shift
  "$@" >"$name.out" 2>&1
  echo $? >"$name.code"
}
# submit NAME OPTIONS... SCRIPT FLAGS...: a job of 2 nodes with 2 tasks each; its own output goes to NAME.job.
submit() {
  local name=$1; shift
  keep "$name" sbatch --wait --partition=debug --nodes=2 --ntasks-per-node=2 --gpus-per-node=0 --cpus-per-task=1 --time=00:10:00 --output="$name.job" "$@"
}

export LOGS=$folder/logs
submit doctor "$scripts/doctor.sbatch" --train-data "$shards"
MODEL=$model DATA=$shards NUM_SAMPLES=96 NAME=production VAL= submit production "$scripts/train_clip.sbatch" "${small[@]}" --grad-checkpointing
MODEL=$model DATA=missing.tar NUM_SAMPLES=96 NAME=refused submit refused "$scripts/train_clip.sbatch" "${small[@]}"
submit rates --array=0-1 "$scripts/learning_rates.sbatch" --train-data "$shards" "${small[@]}"
CHECKPOINT=$LOGS/production VAL=$heldout submit evaluate "$scripts/evaluate.sbatch" --classnames "$classes" --templates "$templates" "${small[@]}"
DATA=$shards STAGE=$folder/disk submit staged "$scripts/stage_data.sbatch" "${small[@]}"
keep interactive "$scripts/interactive.sh" --partition=debug --ntasks-per-node=2 --gpus-per-node=0 -- srun hostname

# scaled FLAGS...: the guide's flags in `line`, with our data, sizes and model in place of its own.
scaled() {
  line=()
  while [ $# -gt 0 ]; do
    case $1 in
      --train-data) line+=("$1" "$shards"); shift 2 ;;
      --imagenet-val) line+=("$1" "$heldout" --classnames "$classes" --templates "$templates"); shift 2 ;;
      --train-num-samples) line+=("$1" 96); shift 2 ;;
      --batch-size) line+=("$1" 4); shift 2 ;;
      --warmup) line+=("$1" 2); shift 2 ;;
      --epochs | --workers) line+=("$1" 1); shift 2 ;;
      --model) line+=("$1" "$model"); shift 2 ;;
      --remote-sync) line+=("$1" "$folder/remote"); shift 2 ;;
      --remote-sync-frequency) line+=("$1" 1); shift 2 ;;
      *) line+=("$1"); shift ;;
    esac
  done
  line+=(--device cpu --threads 1 --logs "$LOGS")
}
# launched NAME FLAGS...: as torchrun would, one launcher on each of two nodes with two ranks.
launched() {
  local name=$1; shift
  scaled "$@" --name "$name"
  keep "$name" srun --ntasks-per-node=1 --nodes=2 "$LOCKSTEP" launch --nproc-per-node 2 -- train clip "${line[@]}"
}
# stepped NAME FLAGS...: one task of srun for each rank.
stepped() {
  local name=$1; shift
  scaled "$@" --name "$name"
  keep "$name" srun --cpu_bind=v --accel-bind=gn --ntasks-per-node=2 --nodes=2 "$LOCKSTEP" train clip "${line[@]}"
}

web=(--train-data x --train-num-samples 10968539 --dataset-type webdataset)
loss=(--local-loss --gather-with-grad)
launched guide-basic "${web[@]}" --batch-size 320 --precision amp --workers 4 --imagenet-val x --model ViT-B-32 --epochs 32
launched guide-complete "${web[@]}" --dataset-resampled --batch-size 256 --precision amp --workers 6 --warmup 2000 --lr 5e-4 --wd 0.2 --epochs 32 \
  --model ViT-B-32 "${loss[@]}" --report-to wandb
# The guide names no number of samples here, which OpenCLIP needs as well.
stepped guide-slurm --save-frequency 1 --report-to tensorboard --train-data x --train-num-samples 400000000 --warmup 2000 --batch-size 256 --epochs 32 \
  --workers 8 --model ViT-B-32 --seed 0 "${loss[@]}"
stepped guide-production --save-frequency 1 --zeroshot-frequency 2 --report-to wandb --wandb-project-name clip-laion400m "${web[@]}" --dataset-resampled \
  --warmup 10000 --batch-size 128 --epochs 32 --workers 8 --model ViT-L-14 --precision amp --grad-checkpointing --lr 5e-4 --wd 0.2 --seed 42 "${loss[@]}" \
  --imagenet-val x
stepped guide-accumulation "${web[@]}" --batch-size 128 --accum-freq 4 --model ViT-B-32 --epochs 32 --warmup 2000 "${loss[@]}"
stepped guide-remote "${web[@]}" --batch-size 128 --model ViT-B-32 --epochs 32 --warmup 2000 --remote-sync x --remote-sync-frequency 300 \
  --delete-previous-checkpoint
stepped guide-array "${web[@]}" --batch-size 128 --model ViT-B-32 --epochs 32 --warmup 2000 --lr 5e-5
stepped guide-huge "${web[@]}" --dataset-resampled --batch-size 256 --precision amp --grad-checkpointing --workers 12 --warmup 10000 --lr 5e-4 --wd 0.2 \
  --epochs 32 --model ViT-H-14 --save-frequency 1 --zeroshot-frequency 2 "${loss[@]}" --report-to wandb --remote-sync x --remote-sync-frequency 600 \
  --delete-previous-checkpoint
exit 0
