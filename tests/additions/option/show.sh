# The option is in the help, checked, and kept in params.txt and run.json.
lockstep=$LOCKSTEP_BUILD/lockstep
"$lockstep" train clip --help > shown.txt
grep -q -- '--note TEXT' shown.txt
train=(train clip --model "$ADDITIONS/tiny_clip.json" --dataset-type synthetic --train-num-samples 16 --batch-size 8
  --device cpu --threads 1 --workers 1 --precision fp32 --epochs 1 --logs runs --name one)
status=0
"$lockstep" "${train[@]}" --note $'two\nlines' 2> refused.txt || status=$?
test "$status" = 2
grep -q -- '--note has more than one line' refused.txt
"$lockstep" "${train[@]}" --note 'before the change'
grep -qx 'note: before the change' runs/one/params.txt
python3 - <<'PYTHON'
import json
assert json.load(open("runs/one/run.json"))["attempts"][0]["options"]["note"] == "before the change"
PYTHON
