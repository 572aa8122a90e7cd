#!/usr/bin/env bash
# Trains a small ResNet on labelled shapes from an LMDB with two ranks, and trains it again with a stop in the middle of an epoch: the second run, resumed, must
# end with the losses of the first, digit for digit, and both must tell the held-out shapes apart. A few minutes on two cores.
#   demo.sh PROGRAM FOLDER [--short]      PROGRAM: a path, or a name on PATH. --short: the same path in a few seconds of training, without the bar
set -euo pipefail
program=$(realpath "$(type -P -- "$1" || printf %s "$1")"); folder=$2; short=${3:-}
mkdir -p "$folder"; folder=$(cd "$folder" && pwd)

pictures=6000 held_out=560 epochs=5 stop_after=250 bar=90
[ "$short" = --short ] && pictures=256 held_out=64 epochs=2 stop_after=5 bar=0

say() { printf '\n== %s\n' "$*"; }
json_text() { sed -n "s/^ *\"$1\": \"\(.*\)\",\{0,1\}$/\1/p"; }

data=$folder/shapes-$pictures-$held_out
say "drawing $pictures labelled shapes, and $held_out held-out ones"
made=$("$program" data make-shapes "$data" --samples $pictures --val-samples $held_out --image-size 32 --samples-per-shard 500 --json)
value() { json_text "$1" <<<"$made"; }
say "writing both into LMDBs"
"$program" data to-lmdb "$(value train_shards)" "$data/train.lmdb"
"$program" data to-lmdb "$(value val_shards)" "$data/val.lmdb"
classes=$(wc -l <"$(value class_names)")

rm -rf "$folder/logs"
# Shapes mirrored or cut to a corner can be another class, so crops keep most of a picture and nothing is mirrored.
train() {
  local name=$1; shift
  "$program" launch --nproc-per-node 2 -- train imagenet --train-data "$data/train.lmdb" --val-data "$data/val.lmdb" --num-classes "$classes" \
    -a resnet18 --train-crop-size 32 --val-resize-size 32 --scale 0.8 1 --hflip 0 -b 64 -j 1 --lr 0.05 --lr-scheduler cosine --lr-warmup-epochs 1 \
    --nesterov --wd 5e-4 --epochs $epochs --val-frequency $epochs --seed 7 --device cpu -p 10 --logs "$folder/logs" --name "$name" "$@"
}
say "training on two ranks"
train whole
say "training again; stops after $stop_after steps, in the middle of an epoch"
train resumed --max-steps $stop_after
say "resuming where it stopped"
train resumed --resume latest

losses() { sed -n 's/.*"step":\([0-9]*\).*"loss":\([-0-9.e+]*\).*/\1 \2/p' "$folder/logs/$1/steps.jsonl"; }
say "summary"
if ! diff <(losses whole) <(losses resumed) >"$folder/difference.txt"; then
  echo "demo: the resumed run's losses differ, see $folder/difference.txt" >&2
  exit 1
fi
accuracy=$(sed -n 's/.*"top1_pct": *\([0-9.e+]*\).*/\1/p' "$folder/logs/resumed/results.jsonl" | tail -n 1)
awk -v accuracy="$accuracy" -v classes="$classes" -v n=$held_out -v bar=$bar -v steps="$(losses whole | wc -l)" 'BEGIN {
  printf "  top-1 accuracy, %d classes, %d held-out pictures   %6.1f %%   (chance %.1f %%)\n", classes, n, accuracy, 100 / classes
  printf "  losses of %d steps                                 equal with and without the stop\n", steps
  if (accuracy < bar) { print "demo: top-1 is below " bar " %" > "/dev/stderr"; exit 1 }
}'
printf '  run folder                                           %s\n' "$folder/logs/resumed"
