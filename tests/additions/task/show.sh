# The regressor learns, on two ranks as on one, and a run that was cut goes on as if it had not been.
lockstep=$LOCKSTEP_BUILD/lockstep
"$lockstep" train --help > shown.txt
grep -q 'regress' shown.txt
"$lockstep" train regress --dry-run --world-size 4 > shown.txt
grep -q 'global batch *256' shown.txt
train=(train regress --device cpu --threads 1 --logs runs --train-num-samples 2048 --epochs 2)
"$lockstep" "${train[@]}" --name one
"$lockstep" launch --nproc-per-node 2 -- "${train[@]}" --name two --batch-size 32
"$lockstep" "${train[@]}" --name cut --save-every-n-steps 10 --max-steps 20
"$lockstep" "${train[@]}" --name cut --resume latest
"$lockstep" report runs/one --format md --out report
python3 - <<'PYTHON'
import json
def losses(name):
    return [json.loads(line)["loss"] for line in open(f"runs/{name}/steps.jsonl")]
one, two, cut = losses("one"), losses("two"), losses("cut")
assert len(one) == 64 and one[-1] < one[0] / 10, (len(one), one[0], one[-1])
assert cut == one, "a resumed run differs"
assert all(abs(a - b) < 1e-5 * one[0] for a, b in zip(one, two, strict=True)), "two ranks differ from one"
assert json.load(open("runs/two/run.json"))["attempts"][0]["setup"]["devices"] == 2
PYTHON
