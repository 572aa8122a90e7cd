#!/usr/bin/env bash
# Trains a small GPT on text that every Debian machine has (the copyright notices and licences of its packages): a tokenizer is learnt, one run stays on
# one rank; another with the same seed starts on two tensor ranks, is told to stop by SIGTERM and goes on as two pipeline stages, on the same curve. Then the model writes.
# A minute and a half on two cores.
#   demo.sh PROGRAM FOLDER [--short]      PROGRAM: a path, or a name on PATH. --short: the same path in a few seconds of training, with a lower bar
set -euo pipefail
program=$(realpath "$(type -P -- "$1" || printf %s "$1")"); folder=$2; short=${3:-}
mkdir -p "$folder"; folder=$(cd "$folder" && pwd)

kilobytes=3000 steps=300 stop_after=120 warmup=30 bar=0.75
[ "$short" = --short ] && kilobytes=200 steps=80 stop_after=20 warmup=30 bar=0.95

say() { printf '\n== %s\n' "$*"; }
prefix=$folder/corpus_text_document
if [ ! -s "$prefix.idx" ] || [ "$(cat "$folder/size" 2>/dev/null)" != "$kilobytes" ]; then
  say "collecting $kilobytes kB of notices; no paragraph twice"
  find /usr/share/common-licenses /usr/share/doc -type f \( -path '*/common-licenses/*' -o -name copyright \) -print0 | sort -z |
    perl -e '$/ = "\0"; @ARGV = <STDIN>; chomp @ARGV; $/ = "";
      while (<>) { s/\s+$//; next if length() < 40 || /[^\x09\x0a\x20-\x7e]/ || $seen{$_}++;
        $size += length; last if $size > 1000 * '"$kilobytes"';
        s/([\\"])/\\$1/g; s/\n/\\n/g; s/\t/ /g; print "{\"text\": \"$_\"}\n" }' >"$folder/corpus.jsonl"
  say "learning a vocabulary of 2048 tokens and tokenizing"
  "$program" data train-bpe "$folder/corpus.jsonl" --output "$folder/bpe" --vocab-size 2048
  "$program" data tokenize "$folder/corpus.jsonl" --output-prefix "$folder/corpus" --tokenizer-model "$folder/bpe" --append-eod
  printf %s "$kilobytes" >"$folder/size"
fi

rm -rf "$folder/logs"
command_of() {  # NAME RANKS FLAGS... -> the array `command`
  local name=$1 ranks=$2; shift 2
  command=("$program" launch --nproc-per-node "$ranks" -- train gpt --num-layers 4 --hidden-size 128 --num-attention-heads 4 --seq-length 64 --micro-batch-size 8 --global-batch-size 16 --swiglu --normalization RMSNorm
    --position-embedding-type rope --disable-bias-linear --hidden-dropout 0 --attention-dropout 0 --lr 2e-3 --min-lr 2e-4 --lr-decay-style cosine --lr-warmup-iters "$warmup"
    --adam-beta2 0.95 --train-iters "$steps" --data-path "$prefix" --tokenizer-model "$folder/bpe" --vocab-size 2048 --split 95,5,0 --eval-interval "$steps" --eval-iters 10
    --log-interval 50 --seed 7 --device cpu --logs "$folder/logs" --name "$name" "$@")
}
say "one rank"
command_of one 1
"${command[@]}"
say "two tensor ranks, which SIGTERM stops after about $stop_after steps"
command_of two 2 --tensor-model-parallel-size 2 --sequence-parallel
"${command[@]}" &
launcher=$!
until [ "$(cat "$folder/logs/two/steps.jsonl" 2>/dev/null | wc -l)" -ge "$stop_after" ] || ! kill -0 $launcher 2>/dev/null; do sleep 0.1; done
kill -TERM $launcher
code=0; wait $launcher || code=$?
[ $code = 75 ] || { echo "demo: the stopped run ended with code $code, expected 75" >&2; exit 1; }
say "going on as two pipeline stages"
command_of two 2 --pipeline-model-parallel-size 2 --resume latest
"${command[@]}"
say "what it writes"
"$program" infer generate --pretrained "$folder/logs/one" --tokenizer-model "$folder/bpe" --prompt "This program is free software" --max-new-tokens 40 --temperature 0.7 --seed 1

say "summary"
column() { grep -o "\"$2\":[-0-9.e+]*" "$1" | cut -d: -f2; }
entropy=$(od -An -v -tu2 -w2 "$prefix.bin" | sort -n | uniq -c | awk '{ n += $1; s += $1 * log($1) } END { print log(n) - s / n }')
paste <(column "$folder/logs/one/steps.jsonl" loss) <(column "$folder/logs/two/steps.jsonl" loss) | awk -v entropy="$entropy" -v bar=$bar -v steps=$steps '
  { difference = ($1 - $2) / $1; if (difference < 0) difference = -difference; if (difference > most) most = difference; rows++
    if (NR > steps - 10) { last += $1; count++ } }
  END {
    last /= count
    printf "  loss of a token by its frequency alone             %6.3f nats\n", entropy
    printf "  loss of the last steps                             %6.3f nats\n", last
    printf "  steps compared, one rank and the resumed run       %6d, largest difference %.4f %%\n", rows, 100 * most
    if (rows != steps || most > 0.001) { print "demo: the resumed run left the curve of one rank" > "/dev/stderr"; exit 1 }
    if (last > bar * entropy) { print "demo: the loss is above " bar " of the entropy" > "/dev/stderr"; exit 1 }
  }'
printf '  run folders                                        %s\n' "$folder/logs"
