#!/usr/bin/env python3
"""What `lockstep report` makes of logs whose truth is known: every program x a line every k steps x pauses.

Writes the logs of one and of two nodes of each case (seeded noise, slow first steps of epochs, evaluations of different
lengths, pauses that no line tells), runs `report --json` and `report --proposal` on them, and compares efficiency,
node-hours and share of pauses with the truth.

Usage: bench/report_log_matrix.py build/lockstep [--programs NAME,...] [--keep FOLDER]
[--out bench/results/report_log_matrix.json]; ends with 1 when a number is more than 1 % off.
"""
import argparse
import csv
import dataclasses
import datetime
import json
import pathlib
import random
import subprocess
import sys
import tempfile

LINE_STEPS = (1, 5, 10, 100)
EVALUATION_STEPS = (0, 200, 1000)  # 0: no evaluations
# Pauses that come otherwise than evaluations do, each (steps from one to the next, first step, seconds, end of them as
# a share of all steps):
UNEVEN_PAUSES = {
    "checkpoints, evaluations": ((100, 100, 3, 1), (1000, 400, 100, 1)),
    "in the first 60 %": ((300, 300, 60, 0.6), ),
    "a hang of 600 s": ((500, 500, 5, 1), (2400, 2400, 600, 0.5)),
    "one": ((3500, 3500, 100, 0.6), ),
}
EACH_INTERVAL = "checkpoints, evaluations"  # one of the former in each interval of 100 steps
ALLOWED = 0.01
STEP_S, EFFICIENCY, NOISE = 0.8, 0.9, 0.02
EPOCH_START_S = 4.0  # what the first step of an epoch waits for its loader
EVALUATION_SHARE, EVALUATION_SPREAD = 0.125, 0.02
DEVICES_PER_NODE, SAMPLES_PER_DEVICE, SEQUENCE = 4, 256, 128
BUDGET_SAMPLES = 10**9
START = datetime.datetime(2026, 1, 31, 12)


class Run:
    """A run by the clock. Steps count from 1; begin[step] and end[step] are seconds since the start."""

    def __init__(self, nodes: int, every: int, evaluation: int, has_epochs: bool, seed: str, uneven=()):
        rng = random.Random(f"{seed} {nodes} {every} {evaluation}")
        self.nodes, self.every, self.evaluation = nodes, every, evaluation
        self.devices = nodes * DEVICES_PER_NODE
        self.batch = self.devices * SAMPLES_PER_DEVICE
        self.steps = 6000 if every < 100 else 12000
        self.in_epoch = evaluation or self.steps
        self.step_s, self.begin, self.end, self.evaluation_end = [0.0], [0.0], [0.0], {}
        now = self.pause_s = 0.0
        for step in range(1, self.steps + 1):
            seconds = STEP_S / (EFFICIENCY if nodes > 1 else 1) * rng.lognormvariate(0, NOISE)
            if has_epochs and (step - 1) % self.in_epoch == 0:
                seconds += EPOCH_START_S
            self.begin.append(now)
            now += seconds
            self.step_s.append(seconds)
            self.end.append(now)
            if evaluation and step % evaluation == 0:
                pause = EVALUATION_SHARE * evaluation * STEP_S * rng.uniform(1 - EVALUATION_SPREAD,
                                                                             1 + EVALUATION_SPREAD)
                self.pause_s += pause
                now += pause
                self.evaluation_end[step] = now
            for steps, first, pause, share in uneven:
                if step % steps == first % steps and step <= share * self.steps and step < self.steps:
                    self.pause_s += pause
                    now += pause

    def mean_s(self, after: int, last: int) -> float:
        return sum(self.step_s[after + 1:last + 1]) / (last - after)

    def lines(self) -> list:
        return list(range(self.every, self.steps + 1, self.every))

    def pause_share(self) -> float:
        return self.pause_s / sum(self.step_s)

    def node_hours(self, has_pauses: bool) -> float:
        share = self.pause_share() if has_pauses else 0
        return self.nodes * BUDGET_SAMPLES / self.batch * self.mean_s(0, self.steps) * (1 + share) / 3600


def stamp(seconds: float, form: str = "%Y-%m-%d %H:%M:%S", digits: int = 0) -> str:
    time = START + datetime.timedelta(seconds=seconds)
    return time.strftime(form) + (f",{time.microsecond // 1000:03}" if digits else "")


def iso(seconds: float) -> str:
    """As a collector of lines puts it in front of each."""
    return stamp(seconds, "%Y-%m-%dT%H:%M:%S") + f".{round(seconds % 1 * 1e6) % 1000000:06}Z"


def openclip(run: Run) -> str:
    head = [f"{stamp(0, '%Y-%m-%d,%H:%M:%S')} | INFO | {text}" for text in
            ("Params:", "  accum_freq: 1", f"  batch_size: {SAMPLES_PER_DEVICE}", f"  world_size: {run.devices}")]
    text = []
    for first in range(0, run.steps, run.in_epoch):
        last, before, epoch = first + run.in_epoch, first, first // run.in_epoch
        for step in range(first + 1, last + 1):
            if (step - first - 1) % run.every and step != last:
                continue
            rate = run.batch / run.step_s[step]
            text.append(f"{stamp(run.end[step], '%Y-%m-%d,%H:%M:%S')} | INFO | Train Epoch: {epoch} "
                        f"[{(step - first) * run.batch}/{run.in_epoch * run.batch} (1%)] Data (t): 0.001 "
                        f"Batch (t): {run.mean_s(before, step):.3f}, {rate:.6g}/s, {rate / run.devices:.6g}/s/gpu "
                        "LR: 0.000001 Logit Scale: 14.280 Loss: 8.0950 (8.1950)")
            before = step
        if last in run.evaluation_end:
            text.append(f"{stamp(run.evaluation_end[last], '%Y-%m-%d,%H:%M:%S')} | INFO | Eval Epoch: {epoch + 1} "
                        "clip_val_loss: 3.1000")
    return "\n".join(head + text)


def megatron(run: Run) -> str:
    text = [f"using world size: {run.devices}, data-parallel size: {run.devices}, context-parallel size: 1, "
            "tensor-model-parallel size: 1, pipeline-model-parallel size: 1"]
    for step in run.lines():
        text.append(f" [{stamp(run.end[step])}] iteration {step:8}/{run.steps:8} | consumed samples: "
                    f"{step * run.batch:12} | elapsed time per iteration (ms): "
                    f"{1000 * run.mean_s(step - run.every, step):.1f} | global batch size: {run.batch:5} | "
                    "lm loss: 9.000000E+00 | number of skipped iterations:   0 | number of nan iterations:   0 |")
        if step in run.evaluation_end:
            text.append(f" validation loss at iteration {step} | lm loss value: 3.0E+00 | lm loss PPL: 2.0E+01 | ")
    return "\n".join(text)


def deepspeed(run: Run) -> str:
    text = [f"[{stamp(0, digits=3)}] [INFO] [config.py:1000:print]   {name} ... {value}"
            for name, value in (("train_batch_size", run.batch), ("world_size", run.devices))]
    text += [f"[{stamp(run.end[step], digits=3)}] [INFO] [timer.py:264:stop] epoch=0/micro_step={step}/global_step="
             f"{step}, RunningAvgSamplesPerSec={run.batch / run.mean_s(0, step):.6f}, CurrSamplesPerSec="
             f"{run.batch / run.step_s[step]:.6f}, MemAllocated=1.25GB, MaxMemAllocated=3.5GB" for step in run.lines()]
    return "\n".join(text)


def nemo_bar(run: Run) -> str:
    return "\n".join(f"{iso(run.end[step])} Epoch 0: :  50%|#####     | {step}/{run.steps} [03:59<03:59, "
                     f"reduced_train_loss=7.310, global_step={step - 1:.2f}, consumed_samples={step * run.batch:.1f}, "
                     f"train_step_timing in s={run.step_s[step]:.3f}]" for step in run.lines())


def nemo_lines(run: Run) -> str:
    return "\n".join(f"{iso(run.end[step])} Training epoch 0, iteration {step}/{run.steps} | lr: 0.0003 | "
                     f"global_batch_size: {run.batch} | global_step: {step - 1} | reduced_train_loss: 11.03 | "
                     f"train_step_timing in s: {run.mean_s(step - run.every, step):.4g} | consumed_samples: "
                     f"{(2 * step - run.every + 1) * run.batch // 2}" for step in run.lines())


def torchtitan(run: Run) -> str:
    text = [f"[titan] {stamp(0, digits=3)} - root - INFO - {line}" for line in
            (f"Building 1-D device mesh with ['dp_shard'], [{run.devices}]",
             f"Trainer is initialized with local batch size {SAMPLES_PER_DEVICE}, global batch size {run.batch}, "
             f"gradient accumulation steps 1, sequence length {SEQUENCE}, total steps {run.steps}")]
    before = 0
    for step in range(1, run.steps + 1):
        if step == 1 or step % run.every == 0:
            rate = SAMPLES_PER_DEVICE * SEQUENCE / run.mean_s(before, step)
            text.append(f"[titan] {stamp(run.end[step], digits=3)} - root - INFO - step: {step:2}  loss:  7.1032  "
                        f"grad_norm: 1.9  memory: 41.2GiB(52%)  tps: {rate:,.0f}  tflops: 281.3  mfu: 28.4%")
            before = step
        if step in run.evaluation_end:
            before = step
            text.append(f"[titan] {stamp(run.evaluation_end[step], digits=3)} - root - INFO - validate step: {step}  "
                        "loss: 6.9000  memory: 41.2GiB(52%)  tps: 99,123")
    return "\n".join(text)


def imagenet_lines(run: Run, prefix) -> str:
    text = ["=> creating model 'resnet50'"]
    for step in range(1, run.steps + 1):
        epoch, batch = divmod(step - 1, run.in_epoch)
        if batch % run.every == 0:
            text.append(f"{prefix(run.end[step])}Epoch: [{epoch}][{batch + 1:4}/{run.in_epoch}]\tTime "
                        f"{run.step_s[step]:6.3f} ({run.mean_s(epoch * run.in_epoch, step):6.3f})\tData  0.001 ( 0.001)"
                        "\tLoss 6.9000e+00 (6.9500e+00)\tAcc@1   0.39 (  0.20)\tAcc@5   1.50 (  1.10)")
        if step in run.evaluation_end:
            text += [f"{prefix(run.end[step] + 0.5)}Test: [ 1/98]\tTime  1.500 ( 1.500)\tLoss 6.9000e+00 (6.9000e+00)"
                     "\tAcc@1   0.39 (  0.39)\tAcc@5   1.50 (  1.50)",
                     f"{prefix(run.evaluation_end[step])} *   Acc@1 71.123 Acc@5 90.456"]
    return "\n".join(text)


def imagenet(run: Run) -> str:
    return imagenet_lines(run, lambda seconds: "")


def imagenet_stamped(run: Run) -> str:
    return imagenet_lines(run, lambda seconds: iso(seconds) + " ")


def tf_cnn_lines(run: Run, prefix) -> str:
    text = ["Model:       resnet50", f"Batch size:  {run.batch} global",
            f"             {SAMPLES_PER_DEVICE} per device",
            "Devices:     [" + ", ".join(["'gpu'"] * run.devices) + "]", "Variables:   horovod"]
    for step in range(1, run.steps + 1):
        if step == 1 or step % run.every == 0:
            rate = SAMPLES_PER_DEVICE / run.mean_s(0, step)
            text.append(f"{prefix(run.end[step])}{step}\timages/sec: {rate:.1f} +/- 4.2 (jitter = 21.0)\t7.123")
    return "\n".join(text + [f"total images/sec: {run.batch / run.mean_s(0, run.steps):.2f}"])


def tf_cnn(run: Run) -> str:
    return tf_cnn_lines(run, lambda seconds: "")


def tf_cnn_stamped(run: Run) -> str:
    return tf_cnn_lines(run, lambda seconds: iso(seconds) + " ")


def mlperf_event(seconds: float, key: str, value, metadata: dict) -> str:
    time_ms = round((START - datetime.datetime(1970, 1, 1)).total_seconds() * 1000 + seconds * 1000)
    return ":::MLLOG " + json.dumps(dict(namespace="", time_ms=time_ms, event_type="POINT_IN_TIME", key=key,
                                         value=value, metadata=metadata))


def mlperf_head(run: Run) -> list:
    return [mlperf_event(0, key, value, {}) for key, value in
            (("submission_benchmark", "gpt3"), ("global_batch_size", run.batch), ("number_of_ranks", run.devices))]


def mlperf_evaluation(run: Run, step: int, metadata: dict) -> list:
    if step not in run.evaluation_end:
        return []
    return [mlperf_event(run.end[step], "eval_start", None, metadata),
            mlperf_event(run.evaluation_end[step], "eval_accuracy", 3.1, metadata),
            mlperf_event(run.evaluation_end[step], "eval_stop", None, metadata)]


def mlperf_lines(run: Run, counts_samples: bool, is_mean: bool) -> str:
    text = mlperf_head(run)
    for step in run.lines():
        seconds = run.mean_s(step - run.every, step) if is_mean else run.step_s[step]
        text.append(mlperf_event(run.end[step], "tracked_stats",
                                 dict(train_step_time=round(seconds, 4), throughput=run.batch / seconds,
                                      reduced_train_loss=6.9),
                                 dict(step=step * run.batch if counts_samples else step)))
        text += mlperf_evaluation(run, step, dict(samples_count=step * run.batch))
    return "\n".join(text)


def mlperf(run: Run) -> str:
    return mlperf_lines(run, counts_samples=False, is_mean=True)


def mlperf_last_step(run: Run) -> str:
    return mlperf_lines(run, counts_samples=False, is_mean=False)


def mlperf_samples(run: Run) -> str:
    return mlperf_lines(run, counts_samples=True, is_mean=True)


def mlperf_blocks(run: Run) -> str:
    text, before = mlperf_head(run), 0
    for step in range(1, run.steps + 1):
        if step % run.every and step not in run.evaluation_end:
            continue
        text += [mlperf_event(run.begin[before + 1], "block_start", None, dict(samples_count=before * run.batch)),
                 mlperf_event(run.end[step], "block_stop", None, dict(samples_count=step * run.batch))]
        text += mlperf_evaluation(run, step, dict(samples_count=step * run.batch))
        before = step
    return "\n".join(text)


def csv_of_means(run: Run) -> str:
    rows = [f"{step - 1},{run.mean_s(step - run.every, step):.4f},{run.batch},{1.7e9 + run.end[step]:.3f}"
            for step in run.lines()]
    return "\n".join(["step,step_time_s,global_batch,unix_time", *rows])


@dataclasses.dataclass
class Program:
    write: object
    has_epochs: bool = False  # an evaluation ends one, and the first step of the next waits for the loader
    has_stamps: bool = True   # without any a log cannot tell pauses, and the report has to say so
    tells_last_step: bool = False  # only that one of every k: the others may have been slow


PROGRAMS = dict(openclip=Program(openclip, has_epochs=True), megatron=Program(megatron),
                deepspeed=Program(deepspeed, tells_last_step=True), nemo_bar=Program(nemo_bar, tells_last_step=True),
                nemo_lines=Program(nemo_lines), torchtitan=Program(torchtitan),
                imagenet=Program(imagenet, has_epochs=True, has_stamps=False, tells_last_step=True),
                imagenet_stamped=Program(imagenet_stamped, has_epochs=True, tells_last_step=True),
                tf_cnn=Program(tf_cnn, has_stamps=False), tf_cnn_stamped=Program(tf_cnn_stamped),
                mlperf=Program(mlperf), mlperf_last_step=Program(mlperf_last_step, tells_last_step=True),
                mlperf_samples=Program(mlperf_samples), mlperf_blocks=Program(mlperf_blocks),
                csv=Program(csv_of_means))


def report(program: str, logs: list, *flags: str) -> str:
    command = [program, "report", *map(str, logs), "--devices-per-node", str(DEVICES_PER_NODE),
               "--meta", "/n(?<nodes>[0-9]+)", "--samples-per-device", str(SAMPLES_PER_DEVICE),
               "--budget-samples", str(BUDGET_SAMPLES), *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{command} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def estimate_of(folder: pathlib.Path) -> dict:
    """Values of the proposal's one table of the estimate, by item."""
    (path,) = (folder / "proposal" / "tables").glob("estimate-*.csv")
    rows = csv.reader(line for line in path.read_text().splitlines() if not line.startswith("#"))
    return {row[0]: row[1] for row in rows}


def number_or_none(text: str):
    try:
        return float(text)
    except ValueError:
        return None


def measure(program: str, name: str, every: int, pauses, folder: pathlib.Path) -> dict:
    """Pauses: steps from one evaluation to the next, or a name of UNEVEN_PAUSES."""
    kind, runs, logs = PROGRAMS[name], [], []
    is_uneven = pauses in UNEVEN_PAUSES
    for nodes in (1, 2):
        runs.append(Run(nodes, every, 0 if is_uneven else pauses, kind.has_epochs, name,
                        UNEVEN_PAUSES.get(pauses, ())))
        logs.append(folder / f"n{nodes}.{'csv' if name == 'csv' else 'log'}")
        logs[-1].write_text(kind.write(runs[-1]) + "\n")
    (curve,) = json.loads(report(program, logs, "--json"))["curves"]
    errors = dict(efficiency=curve["points"][1]["efficiency"]["value"] / EFFICIENCY - 1)
    told, texts = [], {}
    for run in runs:
        out = folder / f"out{run.nodes}"
        report(program, logs, "--proposal", "--job-nodes", str(run.nodes), "-o", str(out), "--format", "csv")
        estimate = estimate_of(out)
        texts[run.nodes] = estimate
        share = number_or_none(estimate["pauses between steps"])
        told.append(share is not None)
        hours = number_or_none(estimate["total"])
        truth = run.node_hours(has_pauses=told[-1])
        errors[f"node_hours_{run.nodes}"] = hours / truth - 1
        if told[-1] and pauses and not is_uneven:
            errors[f"pauses_{run.nodes}"] = share / 100 / run.pause_share() - 1
        elif told[-1] and kind.tells_last_step and pauses == EACH_INTERVAL and every >= 100:
            # a pause of 3 s and slower steps look the same: what they cost together
            slow = number_or_none(estimate["slow steps"])
            errors[f"pauses_{run.nodes}"] = (1 + share / 100) * (1 + slow / 100) - 1 - run.pause_share()
        elif told[-1]:  # nobody can tell their share of a longer run: what is off is off of the time of the steps
            errors[f"pauses_{run.nodes}"] = share / 100 - run.pause_share()
    return dict(program=name, steps_per_line=every, pauses=pauses or "none", are_pauses_told=all(told),
                errors_percent={key: round(100 * value, 3) for key, value in errors.items()},
                is_within=all(abs(value) <= ALLOWED for value in errors.values()) and
                all(is_told == kind.has_stamps for is_told in told))


def table_line(case: dict) -> str:
    cells = [f"{case['errors_percent'].get(key, '-'):>8}" for key in
             ("efficiency", "node_hours_1", "node_hours_2", "pauses_1", "pauses_2")]
    return (f"{case['program']:17}{case['steps_per_line']:4} {case['pauses']:25}" + "".join(cells) +
            ("" if case["is_within"] else "  OFF"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--keep", help="folder that the logs and reports stay in")
    parser.add_argument("--out")
    args = parser.parse_args()
    print("errors in percent\n"
          "program            k  pauses                     effic.  hours 1  hours 2  pause 1  pause 2", flush=True)
    cases = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in args.programs.split(","):
            for every in LINE_STEPS:
                for number, pauses in enumerate((*EVALUATION_STEPS, *UNEVEN_PAUSES)):
                    folder = pathlib.Path(args.keep or scratch) / f"{name}-k{every}-p{number}"
                    folder.mkdir(parents=True, exist_ok=True)
                    cases.append(measure(args.program, name, every, pauses, folder))
                    print(table_line(cases[-1]), flush=True)
    num_off = sum(not case["is_within"] for case in cases)
    print(f"{len(cases)} cases, {num_off} of them more than {100 * ALLOWED:g} % off")
    if args.out:
        version = json.loads(subprocess.run([args.program, "--version", "--json"], capture_output=True, text=True,
                                            check=True).stdout)
        result = dict(command=f"bench/report_log_matrix.py {args.program}", version=version, step_s=STEP_S,
                      step_noise=NOISE, epoch_start_s=EPOCH_START_S, evaluation_share=EVALUATION_SHARE,
                      uneven_pauses=UNEVEN_PAUSES, allowed_percent=100 * ALLOWED, num_off=num_off)
        lines = ",\n".join("  " + json.dumps(case) for case in cases)
        pathlib.Path(args.out).write_text(json.dumps(result, indent=1)[:-2] + f',\n "cases": [\n{lines}\n ]\n}}\n')
    sys.exit(1 if num_off else 0)


if __name__ == "__main__":
    main()
