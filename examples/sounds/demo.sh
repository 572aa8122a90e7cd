#!/usr/bin/env bash
# Trains a small CLAP on synthesised sounds with two ranks: stops in the middle of an epoch, resumes, and evaluates retrieval and zero-shot classification on
# held-out sounds. About two minutes on two cores.
#   demo.sh PROGRAM FOLDER [--short]      PROGRAM: a path, or a name on PATH. --short: the same path in a few seconds of training, without the bar
set -euo pipefail
program=$(realpath "$(type -P -- "$1" || printf %s "$1")"); folder=$2; short=${3:-}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$folder"; folder=$(cd "$folder" && pwd)

sounds=6000 held_out=480 epochs=6 stop_after=100 bar=0.02
[ "$short" = --short ] && sounds=480 held_out=96 epochs=1 stop_after=2 bar=0

say() { printf '\n== %s\n' "$*"; }
json_text() { sed -n "s/^ *\"$1\": \"\(.*\)\",\{0,1\}$/\1/p"; }
last_number() { sed -n "s/.*\"$2\": *\([-0-9.e+]*\).*/\1/p" "$1" | tail -n 1; }

data=$folder/sounds-$sounds-$held_out
say "synthesising $sounds captioned sounds into FLAC shards, and $held_out held-out ones"
made=$("$program" data make-sounds "$data" --samples $sounds --val-samples $held_out --json)
value() { json_text "$1" <<<"$made"; }

rm -rf "$folder/logs"
train() {
  "$program" launch --nproc-per-node 2 -- train clap --model "$here/model.json" --train-data "$(value train_shards)" --tokenizer-vocab "$(value tokenizer)" \
    --val-data "$(value val_shards)" --zeroshot-data "$(value heldout)" --classnames "$(value class_names)" --templates "$(value templates)" \
    --batch-size 48 --lr 1e-3 --wd 0.1 --warmup 30 --workers 1 --precision amp_bf16 --device cpu --grad-clip-norm 1.0 --local-loss --gather-with-grad \
    --use-bn-sync --epochs $epochs --zeroshot-frequency $epochs --log-every-n-steps 20 --seed 7 --logs "$folder/logs" --name demo "$@"
}
say "training on two ranks; stops after $stop_after steps, in the middle of an epoch"
train --max-steps $stop_after
say "resuming where it stopped"
train --resume latest

results=$folder/logs/demo/results.jsonl
say "summary"
awk -v accuracy="$(last_number "$results" zeroshot-top1)" -v classes="$(wc -l <"$(value class_names)")" -v recall="$(last_number "$results" 'audio_to_text_R@1')" \
  -v map="$(last_number "$results" 'audio_to_text_mAP@10')" -v n=$held_out -v bar=$bar 'BEGIN {
  printf "  zero-shot accuracy, %d classes, held-out sounds    %6.1f %%   (chance %.1f %%)\n", classes, 100 * accuracy, 100 / classes
  printf "  sound to caption R@1 among %d                     %6.1f %%   (chance %.1f %%)\n", n, 100 * recall, 100 / n
  printf "  sound to caption mAP@10                            %6.1f %%\n", 100 * map
  if (recall < bar) { print "demo: R@1 is below " bar > "/dev/stderr"; exit 1 }
}'
printf '  run folder                                         %s\n' "$folder/logs/demo"
