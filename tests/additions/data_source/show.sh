# The source is a choice of --dataset-type, is known to be made up, and is trained on by one rank and by two.
lockstep=$LOCKSTEP_BUILD/lockstep
train=(train clip --model "$ADDITIONS/tiny_clip.json" --dataset-type stripes --device cpu --threads 1 --workers 1
  --precision fp32 --epochs 2 --warmup 1 --logs runs)
"$lockstep" train clip --help > shown.txt
grep -q 'stripes' shown.txt
status=0
"$lockstep" "${train[@]}" 2> refused.txt || status=$?
test "$status" = 2
grep -q -- '--dataset-type stripes needs --train-num-samples' refused.txt
"$lockstep" "${train[@]}" --train-num-samples 32 --batch-size 8 --name one
"$lockstep" launch --nproc-per-node 2 -- "${train[@]}" --train-num-samples 32 --batch-size 4 --name two
python3 - <<'PYTHON'
import json
runs = [[json.loads(line)["loss"] for line in open(f"runs/{name}/steps.jsonl")] for name in ("one", "two")]
assert len(runs[0]) == 8 and all(abs(a - b) < 1e-3 for a, b in zip(*runs, strict=True)), runs
assert json.load(open("runs/one/run.json"))["attempts"][0]["setup"]["is_synthetic"] is True
PYTHON
