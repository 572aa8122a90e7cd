# The format is guessed from the lines, taken by name, and read into a rate: 64 samples in 0.25 s are 256 a second.
lockstep=$LOCKSTEP_BUILD/lockstep
mkdir logs
for step in $(seq 1 60); do
  echo "tally: step=$step seconds=0.25$((step % 3)) samples=64 loss=$((100 - step))"
done > logs/n1.log
"$lockstep" report logs/n1.log --nodes 1 --devices 1 --model toy -o guessed --json > guessed.json
"$lockstep" report logs/n1.log --nodes 1 --devices 1 --model toy -o named --from tally --json > named.json
status=0
"$lockstep" report logs/n1.log --from taly 2> refused.txt || status=$?
test "$status" = 2
grep -q "did you mean 'tally'" refused.txt
python3 - <<'PYTHON'
import json
for name in "guessed", "named":
    report = json.load(open(f"{name}.json"))
    rate = report["curves"][0]["points"][0]["samples_per_s"]["value"]
    assert report["runs"][0]["format"] == "tally" and abs(rate - 64 / 0.251) < 1, (name, rate)
PYTHON
