#!/usr/bin/env bash
# The main job on real input: renders captioned JPEG pictures into WebDataset shards, trains a small CLIP on them with two ranks, stops in the
# middle, resumes, evaluates zero-shot accuracy and retrieval on held-out pictures, and measures one rank against two.
#   demo.sh PROGRAM FOLDER [--short]      PROGRAM: a path, or a name on PATH. --short: the same path in a few seconds of training, without the accuracy bar
set -euo pipefail
program=$(realpath "$(type -P -- "$1" || printf %s "$1")"); folder=$2; short=${3:-}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$folder"; folder=$(cd "$folder" && pwd)

pictures=12288 held_out=960 epochs=5 stop_after=200 measured_steps=30 bar=0.80
[ "$short" = --short ] && pictures=768 held_out=240 epochs=2 stop_after=3 measured_steps=6 bar=0
batch=64

say() { printf '\n== %s\n' "$*"; }
# json_text KEY: value of a text key in the pretty-printed JSON on standard input
json_text() { sed -n "s/^ *\"$1\": \"\(.*\)\",\{0,1\}$/\1/p"; }
# last_number FILE KEY: the last value of a numeric key in a JSON Lines file
last_number() { sed -n "s/.*\"$2\": *\([-0-9.e+]*\).*/\1/p" "$1" | tail -n 1; }

data=$folder/shapes-$pictures-$held_out
say "rendering $pictures captioned pictures into JPEG shards, and $held_out held-out ones"
made=$("$program" data make-shapes "$data" --samples $pictures --val-samples $held_out --samples-per-shard 768 --image-size 64 --json)
train_shards=$(json_text train_shards <<<"$made") val_shards=$(json_text val_shards <<<"$made")
classes=$(json_text class_names <<<"$made") templates=$(json_text templates <<<"$made") heldout=$(json_text heldout <<<"$made")

# Two NCCL ranks need two GPUs; otherwise two CPU ranks over Gloo.
device=cpu
[ "$(nvidia-smi -L 2>/dev/null | grep -c '^GPU' || true)" -ge 2 ] && device=cuda
common=(--train-data "$train_shards" --model "$here/model.json"
  --batch-size $batch --lr 1e-3 --wd 0.1 --warmup 50 --workers 1 --precision amp_bf16 --device $device --grad-clip-norm 1.0
  --local-loss --gather-with-grad --log-every-n-steps 20 --seed 7)
train() { # ranks, arguments of train clip
  local ranks=$1; shift
  "$program" launch --nproc-per-node "$ranks" -- train clip "${common[@]}" "$@"
}

rm -rf "$folder/logs"
evaluation=(--val-data "$val_shards" --zeroshot-data "$heldout" --classnames "$classes" --templates "$templates"
  --zeroshot-frequency 2 --epochs $epochs)
say "training on two ranks; stops after $stop_after steps, in the middle of an epoch"
train 2 "${evaluation[@]}" --logs "$folder/logs" --name demo --max-steps $stop_after
say "resuming where it stopped"
train 2 "${evaluation[@]}" --logs "$folder/logs" --name demo --resume latest

say "measuring one rank against two"
for ranks in 1 2; do
  train $ranks --logs "$folder/logs" --name "speed-$ranks" --max-steps $measured_steps --save-frequency 0 --threads 1 >/dev/null
done

results=$folder/logs/demo/results.jsonl
accuracy=$(last_number "$results" zeroshot-top1) recall=$(last_number "$results" 'image_to_text_R@1')
median_rate() { # run: median samples/s over the second half of its steps
  sed -n 's/.*"samples_per_s": *\([-0-9.e+]*\).*/\1/p' "$folder/logs/$1/steps.jsonl" | tail -n $((measured_steps / 2)) | sort -g |
    awk '{v[NR]=$1} END {print v[int((NR+1)/2)]}'
}
one=$(median_rate speed-1) two=$(median_rate speed-2)
"$program" report "$folder/logs/speed-1" "$folder/logs/speed-2" --system "this machine" -o "$folder/report" >/dev/null
say "summary"
awk -v accuracy="$accuracy" -v classes="$(wc -l <"$classes")" -v recall="$recall" -v n="$held_out" -v one="$one" -v two="$two" 'BEGIN {
  printf "  zero-shot accuracy, %d classes, held-out pictures   %6.1f %%   (chance %.1f %%)\n", classes, 100 * accuracy, 100 / classes
  printf "  picture to caption R@1 among %d                    %6.1f %%   (chance %.1f %%)\n", n, 100 * recall, 100 / n
  printf "  training rate, one rank                              %7.1f samples/s\n", one
  printf "  training rate, two ranks                             %7.1f samples/s   (%.2f times one rank)\n", two, two / one
}'
printf '  run folder                                           %s\n' "$folder/logs/demo"
printf '  report of one rank against two                       %s\n' "$folder/report/report.html"
awk -v accuracy="$accuracy" -v bar=$bar 'BEGIN { exit !(accuracy >= bar) }' || { echo "demo: accuracy is below $bar" >&2; exit 1; }
