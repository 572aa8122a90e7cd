"""Writes tests/golden/record/openclip_log.json: log lines as OpenCLIP's training program formats them.

Needs PyPI's open_clip_torch 3.3.0 (its open_clip_train package, from the source distribution or the repository tag)
beside torch. The f-strings are cut out of the installed open_clip_train/train.py and evaluated, so that the lines are
the program's own.

  python3 ref/make_record_goldens.py tests/golden/record/openclip_log.json
"""
import ast
import importlib.util
import json
import math
import random
import sys
from types import SimpleNamespace


def find_fstrings(source):
    """Compiled argument of each logging.info call, keyed by the text it starts with."""
    found = {}
    for node in ast.walk(ast.parse(source)):
        is_info = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "info"
        if is_info and node.args:
            text = ast.unparse(node.args[0])
            for key in ("Train Epoch", "Clip Loss", "join"):
                if key in text:
                    found.setdefault(key, compile(ast.Expression(node.args[0]), "train.py", "eval"))
    return found


def main():
    path = importlib.util.find_spec("open_clip_train").submodule_search_locations[0] + "/train.py"
    source = open(path).read()
    expressions = find_fstrings(source)
    loss_log = next(compile(ast.Expression(node.value), "train.py", "eval") for node in ast.walk(ast.parse(source))
                    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "loss_log")
    rng = random.Random(7)
    specials = [0.0, 1.0, 1e-7, 5e-5, 123456.5, 999999.5, 1234567.0, 1e10, 0.5, 2.5, 0.0005, 12.345, 99.995,
                float("nan"), float("inf")]
    loss_names = [["contrastive_loss", "loss"], ["loss"], ["contrastive_loss", "caption_loss", "loss"]]

    def number():
        return rng.choice(specials) if rng.random() < 0.3 else 10 ** rng.uniform(-6, 6) * rng.choice([1, 1, 1, -1])

    train = []
    for _ in range(80):
        total = rng.choice([1, 9, 10, 99, 100, 999, 1000, 12345, 999999, 1000000, 135646078])
        case = dict(epoch=rng.randrange(40), samples_in_epoch=rng.randrange(total + 1), samples_per_epoch=total,
                    percent_of_epoch=rng.choice([0.5, 1.5, 2.5, 100.0, rng.random() * 100]), data_s=abs(rng.random()),
                    batch_s=number(), samples_per_s=number(), samples_per_s_per_rank=number(), lr=number(),
                    logit_scale=number(),
                    losses=[[name, number(), number()] for name in rng.choice(loss_names)])
        names = dict(epoch=case["epoch"], num_samples=case["samples_in_epoch"], samples_per_epoch=total,
                     sample_digits=math.ceil(math.log(total + 1, 10)), percent_complete=case["percent_of_epoch"],
                     data_time_m=SimpleNamespace(avg=case["data_s"]), batch_time_m=SimpleNamespace(avg=case["batch_s"]),
                     samples_per_second=case["samples_per_s"],
                     samples_per_second_per_gpu=case["samples_per_s_per_rank"],
                     optimizer=SimpleNamespace(param_groups=[{"lr": case["lr"]}]),
                     logit_scale_scalar=case["logit_scale"],
                     losses_m={name: SimpleNamespace(val=val, avg=avg) for name, val, avg in case["losses"]})
        names["loss_log"] = eval(loss_log, names)
        case["line"] = eval(expressions["Train Epoch"], names)
        train.append(case)

    progress = []
    for _ in range(20):
        case = dict(epoch=rng.randrange(40), samples_done=rng.randrange(1, 5000), samples_total=5000,
                    loss=abs(number()))
        # The program divides a running sum; the quotient itself is what is shown.
        names = dict(epoch=case["epoch"], num_samples=case["samples_done"], samples_per_val=case["samples_total"],
                     cumulative_loss=RunningLoss(case["loss"]))
        case["line"] = eval(expressions["Clip Loss"], names)
        progress.append(case)

    summary = []
    for _ in range(50):
        metrics = {f"metric_{index}": rng.choice([rng.random(), rng.random() * 1000, 0.00005, 0.5, rng.randrange(100)])
                   for index in range(rng.randrange(1, 6))}
        epoch = rng.randrange(40)
        line = eval(expressions["join"], dict(epoch=epoch, metrics=metrics, round=round))
        summary.append(dict(epoch=epoch, metrics=list(metrics.items()), line=line))

    def plain(value):  # JSON has no NaN
        if isinstance(value, float) and not math.isfinite(value):
            return str(value)
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [plain(item) for item in value]
        return value

    with open(sys.argv[1], "w") as out:
        json.dump(plain(dict(train=train, progress=progress, summary=summary)), out, indent=0)
        out.write("\n")


class RunningLoss:
    """A sum whose quotient by any count is the wanted mean."""

    def __init__(self, mean):
        self.mean = mean

    def __truediv__(self, _):
        return self.mean


if __name__ == "__main__":
    main()
