#!/usr/bin/env bash
# What should be known first of a machine with a GPU, in one call of less than ten minutes. --help lists parts and flags.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'EOF'
tools/gpu_day.sh: what should be known first of a machine with a GPU, in ten
minutes

  tools/gpu_day.sh [--build build] [--output BUILD/gpu_day] [--publish]
                   [--minutes 9] [--device cuda] [--tiny] [--only PART,PART]

Parts, each with its share of the time; one that fails ends none of the others:

    tests       test_gpu: every task against the CPU in fp32 and bf16, ranks
                over NCCL that share a GPU, resume, profile, FP8, energy
    op          matrix products, copies, attention: the peaks that the next
                parts are compared with
    vit_b_32    training steps: samples/s, TFLOP/s, share of the peak, memory
                against the plan
    collective  of several GPUs: bandwidth of each collective among all
    all_gpus    of several GPUs: the step of vit_b_32 on all of them
    vit_h_14    likewise
    htsat_tiny  likewise, CLAP
    gpt_1_3b    likewise, GPT
    resnet50    likewise, a classifier
    host_gaps   how long the device waits between kernels of vit_b_32
    peers       installs OpenCLIP and transformers where PyPI is reachable;
                where it is not, the next parts are left out
    peer_gpt    steps of Hugging Face's GPT-2 in turn with ours on the same
                weights and batches: ratio of step times, memory, losses
    peer_clap   likewise, Hugging Face's CLAP
    peer_clip   likewise, OpenCLIP eager and under torch.compile

A part leaves OUTPUT/gpu_PART.json with command, exit code, seconds, output and
numbers; a table of them is printed at the end. --publish copies the files of
parts that ended well to bench/results, which is committed. The build must be
whole: `./test` builds test_gpu and the programs of bench/, which `./run` leaves
out. --device cpu --tiny tries the script where there is no GPU: small models,
and the tests on the simulated accelerator.
Exit code: the number of parts that failed.
EOF
}

build=build output= minutes=9 device=cuda tiny= only= publish=
while [ $# -gt 0 ]; do
  case "$1" in
    --build | --output | --minutes | --device | --only)
      [ $# -gt 1 ] || { echo "tools/gpu_day.sh: $1 needs a value; --help lists the flags" >&2; exit 2; }
      printf -v "${1#--}" %s "$2"
      shift 2
      ;;
    --tiny) tiny=1; shift ;;
    --publish) publish=1; shift ;;
    -h | --help) usage; exit 0 ;;
    *) echo "tools/gpu_day.sh: '$1' is no flag of it; --help lists them" >&2; exit 2 ;;
  esac
done
[[ $minutes =~ ^[1-9][0-9]*$ ]] || { echo "tools/gpu_day.sh: --minutes got '$minutes', expected a whole number" >&2; exit 2; }
[[ $device =~ ^(cuda|cpu)$ ]] || { echo "tools/gpu_day.sh: --device got '$device', expected cuda or cpu" >&2; exit 2; }
[ -x "$build/lockstep" ] || { echo "tools/gpu_day.sh: '$build' holds no program lockstep; ./test builds all that is needed" >&2; exit 2; }
if [ -n "$publish" ] && { [ -n "$tiny" ] || [ "$device" != cuda ]; }; then
  echo "tools/gpu_day.sh: --publish is for numbers of a GPU; leave out --tiny and --device $device" >&2
  exit 2
fi
mapfile -t parts < <(usage | sed -n 's/^    \([a-z][a-z0-9_]*\)  .*/\1/p')
for name in ${only//,/ }; do
  [[ " ${parts[*]} " == *" $name "* ]] ||
    { echo "tools/gpu_day.sh: --only got '$name', expected some of: ${parts[*]}" >&2; exit 2; }
done
output=${output:-$build/gpu_day}
mkdir -p "$output"
output=$(cd "$output" && pwd)
lockstep=$build/lockstep
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
began=$SECONDS failed=0 part_code=0 done_parts=()

wants() { [ -z "$only" ] || [[ ",$only," == *",$1,"* ]]; }

# part NAME SECONDS COMMAND...: runs it within its share of what is left and writes its file.
part() {
  local name=$1 limit=$2 left=$((minutes * 60 - SECONDS + began)) code=0 start=$SECONDS
  shift 2
  wants "$name" || return 0
  [ "$limit" -gt "$left" ] && limit=$left
  echo "== $name: at most $limit s: $*"
  if [ "$limit" -le 0 ]; then
    code=124
    : > "$scratch/out" > "$scratch/err"
  else
    timeout -k 5 "$limit" "$@" > "$scratch/out" 2> "$scratch/err" || code=$?
  fi
  python3 tools/gpu_day_part.py --name "$name" --device "$device" --exit-code "$code" --seconds $((SECONDS - start)) --out "$scratch/out" \
    --err "$scratch/err" --run "$scratch/runs/$name" --xml "$scratch/$name.xml" --file "$output/gpu_$name.json" -- "$@" || code=1
  part_code=$code
  done_parts+=("$name")
  if [ "$code" -ne 0 ]; then failed=$((failed + 1)); fi
}

steps=(-w 5 -n 20)
models=(ViT-B-32 ViT-H-14) batches=(512 64) ops=(--min-dim 4096 --max-dim 8192 --precisions fp32 bf16)
gpt=(--model gpt3-1.3b --seq-length 2048 --batch-size 4 --precision bf16_master) clip_precision=amp_bf16
clap=(--model HTSAT-tiny-Roberta-base --batch-size 64 --precision amp_bf16)
classifier=(--model resnet50 --batch-size 256 --precision amp_bf16)
profiled=(--train-num-samples 10240 --epochs 1 --profile-step-start 12 --profile-step-end 16)
if [ -n "$tiny" ]; then
  cat > "$scratch/tiny.json" <<'EOF'
{"embed_dim": 32, "vision_cfg": {"image_size": 32, "layers": 1, "width": 32, "head_width": 16, "patch_size": 8},
 "text_cfg": {"context_length": 24, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1}}
EOF
  steps=(-w 1 -n 2) models=("$scratch/tiny.json" "$scratch/tiny.json") batches=(2 2) ops=(--min-dim 128 --max-dim 128 --array-bytes 1M)
  cat > "$scratch/gpt.json" <<'EOF'
{"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "n_positions": 64, "vocab_size": 512}
EOF
  gpt=(--model "$scratch/gpt.json" --seq-length 64 --batch-size 2 --precision fp32) clip_precision=fp32
  clap=(--model examples/sounds/model.json --batch-size 4 --precision fp32)
  classifier=(--model resnet18 --batch-size 2 --precision fp32 --force-image-size 64)
  profiled=(--train-num-samples 12 --epochs 1 --profile-step-start 2 --profile-step-end 4)
fi

[ "$device" = cpu ] && export LOCKSTEP_GPU_TESTS=simulated
shards=$(($(nproc) / 2))  # a case has up to four processes, which often wait
part tests 330 tools/run_shards.sh "$((shards < 1 ? 1 : shards < 8 ? shards : 8))" "$scratch/tests.xml" "$build/test_gpu"
part op 60 "$lockstep" bench op "${ops[@]}" "${steps[@]}" --device "$device" --json
peak=()
if [ -z "$tiny" ] && python3 tools/gpu_day_table.py --result "$output/gpu_op.json" > "$scratch/peak.json"; then
  peak=(--peak-from "$scratch/peak.json")
fi
bench_step() {
  local name=$1
  shift
  part "$name" 60 "$lockstep" bench step "$@" "${steps[@]}" --device "$device" "${peak[@]}" --json
}
for i in 0 1; do
  name=$([ $i = 0 ] && echo vit_b_32 || echo vit_h_14)
  bench_step "$name" --model "${models[$i]}" --batch-size "${batches[$i]}" --precision $clip_precision
done
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ' || true)
visible=${CUDA_VISIBLE_DEVICES-all}
[ "$visible" = all ] || gpus=$(tr ',' '\n' <<< "$visible" | grep -c . || true)
if [ "$device" = cuda ] && [ "${gpus:-0}" -gt 1 ]; then
  launch=("$lockstep" launch --nproc-per-node gpu --no-prefix --)
  part collective 90 "${launch[@]}" bench collective --collectives all "${steps[@]}" --device cuda --json
  part all_gpus 60 "${launch[@]}" bench step --model "${models[0]}" --batch-size "${batches[0]}" --precision $clip_precision "${steps[@]}" \
    --device cuda --json
elif wants collective || wants all_gpus; then
  echo "== collective and all_gpus are left out: they need two visible GPUs, here are ${gpus:-0}"
fi
bench_step htsat_tiny "${clap[@]}"
bench_step gpt_1_3b "${gpt[@]}"
bench_step resnet50 "${classifier[@]}"
part host_gaps 60 "$lockstep" profile train clip --model "${models[0]}" --batch-size "${batches[0]}" --precision $clip_precision \
  --dataset-type synthetic --workers 8 --device "$device" "${profiled[@]}" --logs "$scratch/runs" --name host_gaps

peer_gpt=(--batch 8 --tokens 1024 --steps 30 --warm-up 10 --rounds 2) peer_clap=(--batch 64 --steps 30 --warm-up 10 --rounds 2)
peer_clip=(--model ViT-B-32 --batch 512 --steps 40 --warm-up 15 --rounds 2 --compile) peer_precision=bf16
if [ -n "$tiny" ]; then
  peer_gpt=(--batch 1 --tokens 16 --steps 2 --warm-up 1 --rounds 1) peer_clap=(--batch 2 --steps 2 --warm-up 1 --rounds 1)
  peer_clip=(--model RN50 --batch 2 --steps 2 --warm-up 1 --rounds 1) peer_precision=fp32
fi
# peer NAME SECONDS SCRIPT PROGRAM ARGUMENTS...
peer() {
  local name=$1 limit=$2 script=$3 program=$4
  shift 4
  part "$name" "$limit" env "PYTHONPATH=$peer_path" python3 "bench/peers/$script" compare --program "$build/$program" \
    --precision "$peer_precision" --device "$device" "$@"
}
if [ -z "$only" ] || [[ "$only" == *peer* ]]; then
  only=${only:+$only,peers}
  part peers 120 env LOCKSTEP_YES=1 ref/setup.sh
  peer_path=$(tail -n 1 "$scratch/out")
  if [ "$part_code" -eq 0 ]; then
    peer peer_gpt 100 gpt_step.py bench_gpt_step "${peer_gpt[@]}"
    peer peer_clap 100 clap_step.py bench_clap_step "${peer_clap[@]}"
    peer peer_clip 240 clip_step.py lockstep "${peer_clip[@]}"
  fi
fi
echo
python3 tools/gpu_day_table.py "$output" "${done_parts[@]}"
if [ -n "$publish" ]; then
  python3 tools/gpu_day_table.py --publish bench/results "$output" "${done_parts[@]}"
fi
echo "== $failed parts failed; $((SECONDS - began)) s; the files are $output/gpu_*.json"
exit $failed
