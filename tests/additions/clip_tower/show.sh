# A model file names the tower: it is planned, counted and trained.
lockstep=$LOCKSTEP_BUILD/lockstep
sed 's/"vision_cfg": {/"vision_cfg": {"tower": "mean_patch", /' "$ADDITIONS/tiny_clip.json" > model.json
train=(train clip --model model.json --dataset-type synthetic --train-num-samples 32 --batch-size 8 --device cpu
  --threads 1 --workers 1 --precision fp32 --epochs 1 --warmup 1 --logs runs --name one)
"$lockstep" "${train[@]}" --dry-run
"$lockstep" "${train[@]}" --max-steps 2
python3 - <<'PYTHON'
import json
losses = [json.loads(line)["loss"] for line in open("runs/one/steps.jsonl")]
assert len(losses) == 2 and all(0 < loss < 10 for loss in losses), losses
model = json.load(open("runs/one/run.json"))["attempts"][0]["model"]
patches, width, embed_dim = 3 * 8 * 8 * 16, 16, 16
text = 49408 * 16 + 8 * 16 + 12 * 16 * 16 + 13 * 16 + 2 * 16 + 16 * 16
assert model["parameters"] == patches + width * embed_dim + text + 1, model
PYTHON
