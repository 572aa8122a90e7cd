#!/usr/bin/env python3
"""Disturbs training runs at random moments, resumes them, and compares what they end with to runs that nobody
disturbed.

usage: tools/fault_storm.py [--rounds 200] [--faults rank,launcher,node,...] [--seed N] [--steps 120]
                            [--lockstep build/lockstep] [--output FILE.json] [--keep-folder]

A round is one fault at a random moment between the start and the end of the run, saving included:

    rank, launcher, node   kill -9 of a random rank, of the launcher, of the launcher and all ranks
    enospc, eio            for some seconds no file of the run can be written: the disk is full, or fails
    slow, stall            for some seconds each write takes 20 ms longer; or none returns
    clock                  the wall clock of all ranks jumps by up to an hour, forth or back

Files and clocks fail by tools/faulty_files.c, which needs a C compiler (cc). Slow and stalled writes and clocks must
not end the run; full and failing disks may, with exit code 5 or 6 and a message that says why. Runs are CLIP and GPT
with four ranks on this machine, ZeRO-1, and an asynchronous checkpoint every five steps; each is resumed with `--resume
latest` until it ends, then the next one begins. Half of the runs keep their layout: they must end with the parameters
of the undisturbed run, bit for bit. The others resume on a random layout: every step's loss must lie within 2 % of the
undisturbed run's. After each fault every checkpoint that the log called saved must be whole, and the next start must
not begin behind the newest of them.

Exit code: 0 when every round held, 1 else. --output writes one row a round.
"""
import argparse
import json
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

STEPS_PER_EPOCH = 24  # of CLIP, whose runs are whole epochs
SAVE_EVERY = 5
LOSS_TOLERANCE = 0.02
START_LIMIT_S = 300
KILLS = ["rank", "launcher", "node"]
FAILING = {"enospc": "No space left on device", "eio": "Input/output error"}  # and what a run must say that ends by it
DELAYS = ["slow", "stall", "clock"]
TINY_CLIP = {"embed_dim": 32, "vision_cfg": {"image_size": 32, "layers": 2, "width": 32, "head_width": 16,
                                             "patch_size": 8},
             "text_cfg": {"context_length": 24, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2}}


class Failed(Exception):
    """What did not hold."""


class Task:
    """A training command that any of its layouts can go on with."""

    def __init__(self, name, arguments, layouts):
        self.name, self.arguments, self.layouts = name, arguments, layouts

    def command(self, lockstep, logs, run, layout):
        num_ranks, flags = layout
        launch = [lockstep, "launch", "--nproc-per-node", str(num_ranks), "--"]
        return launch + self.arguments + flags + ["--logs", str(logs), "--name", run, "--threads", "1", "--device",
                                                  "cpu",
                                                  "--save-every-n-steps", str(SAVE_EVERY), "--keep", "4"]


def make_tasks(lockstep, folder, num_steps):
    (folder / "tiny.json").write_text(json.dumps(TINY_CLIP))
    made = subprocess.run([lockstep, "data", "make-shapes", str(folder / "shapes"), "--samples",
                           str(32 * STEPS_PER_EPOCH),
                           "--samples-per-shard", "96",
                           "--image-size", "32", "--json"], capture_output=True, text=True, check=True)
    clip = ["train", "clip", "--train-data", json.loads(made.stdout)["train_shards"], "--model",
            str(folder / "tiny.json"),
            "--global-batch-size", "32", "--workers", "1", "--precision", "fp32", "--lr", "1e-3", "--warmup", "10",
            "--epochs", str(num_steps // STEPS_PER_EPOCH), "--log-every-n-steps", "1", "--grad-sync", "zero1",
            "--save-frequency", "0"]
    gpt = ["train", "gpt", "--mock-data", "--vocab-size", "96", "--make-vocab-size-divisible-by", "4", "--num-layers",
           "4",
           "--hidden-size", "32", "--num-attention-heads", "4", "--seq-length", "32", "--max-position-embeddings", "32",
           "--micro-batch-size", "1", "--global-batch-size", "16", "--train-iters", str(num_steps), "--lr", "1e-3",
           "--log-interval", "1",
           "--use-distributed-optimizer"]
    tensor, pipeline = "--tensor-model-parallel-size", "--pipeline-model-parallel-size"
    return [Task("clip", clip, [(4, []), (2, []), (1, [])]),
            Task("gpt", gpt, [(4, [tensor, "2"]), (4, []), (4, [pipeline, "2"]), (2, [pipeline, "2"])])]


def processes_of(session):
    """Processes of a session as (pid, command line), by /proc: launch gives each rank a process group of its own."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            line = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it just ended
        if int(fields[3]) == session and fields[0] != "Z":
            found.append((int(path.name), line))
    return found


def tensors_of(path):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    return {name: data[8 + length + entry["data_offsets"][0]:8 + length + entry["data_offsets"][1]]
            for name, entry in header.items() if name != "__metadata__"}


def final_parameters(lockstep, run_folder):
    """All parameters of the last checkpoint, from all ranks, by name."""
    file = run_folder / "exported.safetensors"
    task_flags = ["--names", "megatron"] if (run_folder.name.startswith("gpt")) else []
    subprocess.run([lockstep, "ckpt", "export", str(run_folder), str(file)] + task_flags, check=True,
                   capture_output=True)
    return tensors_of(file)


def losses_of(run_folder):
    losses = {}
    for line in (run_folder / "steps.jsonl").read_text().splitlines():
        try:
            step = json.loads(line)
        except ValueError:
            continue  # cut by a kill; a later attempt repeats the step
        losses[step["step"]] = step["loss"]
    return losses


def saved_steps(log):
    """Steps of the checkpoints that a log says were saved, with their names."""
    return {int(step): name for name, step in re.findall(r"saved checkpoint (step-(\d+)\.a\d+)", log)}


class Run:
    """One run of a task, from its first start to its end."""

    def __init__(self, task, lockstep, logs, name, changes_layout, rng):
        self.task, self.lockstep, self.logs, self.name, self.rng = task, lockstep, logs, name, rng
        self.changes_layout = changes_layout
        self.folder = logs / name
        self.output = logs.parent / (name + ".out")  # not among the files that fail: it is what a terminal shows
        self.num_starts = 0
        self.newest_saved = 0  # step of the newest checkpoint that was reported saved

    def start(self, environment):
        layout = self.rng.choice(self.task.layouts) if self.changes_layout and self.num_starts else self.task.layouts[0]
        command = self.task.command(self.lockstep, self.logs, self.name, layout)
        if self.num_starts:
            command += ["--resume", "latest"]
        self.num_starts += 1
        self.log_file = open(self.output, "w", encoding="utf-8")
        return subprocess.Popen(command, stdout=self.log_file, stderr=subprocess.STDOUT, start_new_session=True,
                                env=environment)

    def check_after_fault(self):
        log = self.output.read_text(errors="replace")
        saved = saved_steps(log)
        resumed = re.search(r"continuing after step (\d+)|starting from the beginning", log)
        if resumed and int(resumed[1] or 0) < self.newest_saved:
            raise Failed(f"went on from step {resumed[1] or 0}, though step {self.newest_saved} was reported saved")
        for step, name in sorted(saved.items())[-3:]:  # older ones may be gone: --keep
            manifest = self.folder / "checkpoints" / name / "manifest.json"
            if not manifest.exists():
                raise Failed(f"{name} was reported saved and has no manifest")
            done = subprocess.run([self.lockstep, "ckpt", "verify", str(manifest.parent)], capture_output=True,
                                  text=True, check=False)
            if done.returncode != 0:
                raise Failed(f"{name} was reported saved and is damaged: {done.stdout}{done.stderr}")
        if saved:
            self.newest_saved = max(saved)


def kill_all(session):
    for pid, _ in processes_of(session):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def wait_gone(process, session, seconds):
    """Waits for the launcher, then for everything in its group; what stays is killed and counts as a fault."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        kill_all(session)
        process.wait()
        raise Failed(f"still running {seconds} s after the fault") from None
    end = time.monotonic() + 30
    while time.monotonic() < end:
        if not processes_of(session):
            return
        time.sleep(0.05)
    left = processes_of(session)
    kill_all(session)
    raise Failed(f"left behind after the launcher ended: {[line[:80] for _, line in left]}")


class FaultyFiles:
    """Files of the runs, and clocks, that can be made to fail from outside."""

    def __init__(self, folder, logs):
        self.trigger = folder / "trigger"
        library = folder / "faulty_files.so"
        source = pathlib.Path(__file__).with_name("faulty_files.c")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
        self.environment = dict(os.environ, LD_PRELOAD=str(library), FAULTY_FOLDER=str(logs),
                                FAULTY_TRIGGER=str(self.trigger))

    def fail(self, process, kind, rng):
        """Lets files fail for a while; the process may end before."""
        number = {"slow": 20, "clock": rng.randrange(-3600, 3600)}.get(kind, 0)
        aside = self.trigger.with_suffix(".new")
        aside.write_text(f"{kind} {number}\n")
        aside.rename(self.trigger)
        try:
            process.wait(rng.uniform(0.2, 8))
        except subprocess.TimeoutExpired:
            pass
        self.trigger.unlink()


def check_exit(kind, process, log):
    """A run that a fault was to leave alone must have gone on; one that a disk ended must say why."""
    if process.returncode == 0:
        return
    if kind in FAILING:
        if process.returncode in (5, 6) and FAILING[kind] in log:
            return
        raise Failed(f"ended with code {process.returncode} and not with 5 or 6 and '{FAILING[kind]}':\n{log[-1500:]}")
    raise Failed(f"ended with code {process.returncode} by {kind}:\n{log[-1500:]}")


def kill_one(process, kind, rng):
    """Kills a victim of this kind; returns what it was, or "" where the run had ended by itself."""
    session = process.pid
    members = processes_of(session)
    ranks = [pid for pid, line in members if "lockstep-engine" in line]
    if process.poll() is not None:
        return ""
    try:
        if kind == "rank" and ranks:
            os.kill(rng.choice(ranks), signal.SIGKILL)
        elif kind == "node":
            kill_all(session)
        else:
            kind = "launcher"
            os.kill(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return ""
    return kind


def undisturbed(task, lockstep, logs):
    run = Run(task, lockstep, logs, task.name + "-reference", False, random.Random(0))
    began = time.monotonic()
    process = run.start(os.environ)
    if process.wait(START_LIMIT_S) != 0:
        raise Failed(f"the undisturbed {task.name} failed:\n{run.output.read_text()[-2000:]}")
    return {"seconds": time.monotonic() - began, "losses": losses_of(run.folder),
            "parameters": final_parameters(lockstep, run.folder)}


def check_end(run, reference):
    losses = losses_of(run.folder)
    if sorted(losses) != sorted(reference["losses"]):
        raise Failed(f"{len(losses)} steps in the record, {len(reference['losses'])} in that of the undisturbed run")
    worst = max(abs(losses[step] - loss) / abs(loss) for step, loss in reference["losses"].items())
    if run.changes_layout:
        if worst > LOSS_TOLERANCE:
            raise Failed(f"a loss is {100 * worst:.2f} % off the undisturbed run's")
        return f"losses within {100 * worst:.3f} %"
    if losses != reference["losses"]:
        raise Failed(f"losses differ by up to {worst:.2e}, though the layout stayed")
    if final_parameters(run.lockstep, run.folder) != reference["parameters"]:
        raise Failed("final parameters are not those of the undisturbed run, bit for bit")
    return "bit for bit"


def write_result(args, rows, runs):
    """What there is so far, in --output."""
    if not args.output:
        return
    command = (f"tools/fault_storm.py --rounds {args.rounds} --faults {','.join(args.faults)} --seed {args.seed} "
               f"--steps {args.steps}")
    rounds, ended = (",\n".join("  " + json.dumps(one) for one in list_) for list_ in (rows, runs))
    args.output.write_text(f'{{\n "command": {json.dumps(command)},\n "steps": {args.steps},'
                           f' "save_every": {SAVE_EVERY},\n'
                           f' "rounds": [\n{rounds}\n ],\n "runs": [\n{ended}\n ]\n}}\n')


def storm(args, folder):
    rng = random.Random(args.seed)
    tasks = make_tasks(args.lockstep, folder, args.steps)
    logs = folder / "logs"
    logs.mkdir()
    faulty = FaultyFiles(folder, logs) if set(args.faults) - set(KILLS) else None
    environment = faulty.environment if faulty else os.environ
    references = {task.name: undisturbed(task, args.lockstep, logs) for task in tasks}
    for name, reference in references.items():
        print(f"undisturbed {name}: {len(reference['losses'])} steps in {reference['seconds']:.1f} s", flush=True)
    rows, runs = [], []
    run = None
    while len(rows) < args.rounds or run is not None:
        if run is None:
            number = len(runs)
            run = Run(tasks[number % 2], args.lockstep, logs, f"{tasks[number % 2].name}-{number}",
                      number // 2 % 2 == 1, rng)
            runs.append({"run": run.name, "changes_layout": run.changes_layout, "faults": 0, "result": ""})
        process = run.start(environment)
        fault, problem = "", ""
        after = rng.uniform(0, references[run.task.name]["seconds"])
        kind = rng.choice(args.faults)
        try:
            if len(rows) < args.rounds:
                try:
                    process.wait(after)
                except subprocess.TimeoutExpired:
                    if kind in KILLS:
                        fault = kill_one(process, kind, rng)
                    else:
                        fault = kind
                        faulty.fail(process, kind, rng)
            wait_gone(process, process.pid, 120 if fault in KILLS else START_LIMIT_S)
            run.check_after_fault()
            if fault not in KILLS:
                check_exit(fault, process, run.output.read_text(errors="replace"))
            if process.returncode == 0:
                runs[-1]["result"] = check_end(run, references[run.task.name])
        except Failed as failed:
            problem = str(failed)
        if fault:
            runs[-1]["faults"] += 1
            rows.append({"round": len(rows) + 1, "run": run.name, "fault": fault, "after_s": round(after, 2),
                         "exit_code": process.returncode, "saved_step": run.newest_saved, "problem": problem})
            print(f"{len(rows):4} {run.name:10} {fault:9} after {after:5.1f} s, exit code {process.returncode:3}, "
                  f"saved step {run.newest_saved:3} {problem}", flush=True)
        has_ended = process.returncode == 0
        if problem and has_ended:
            runs[-1]["result"] = "FAILED: " + problem
        if problem or has_ended:
            print(f"     {run.name:10} {runs[-1]['faults']} faults: {runs[-1]['result'] or 'given up'}", flush=True)
            if not problem:
                shutil.rmtree(run.folder)
            run = None
            write_result(args, rows, runs)
    if len(rows) >= 8 * len(args.faults) and {row["fault"] for row in rows} != set(args.faults):
        sys.exit(f"the storm did not have each of {args.faults}: it shows nothing")
    num_held = sum(not row["problem"] for row in rows)
    failed_runs = [one for one in runs if not one["result"] or one["result"].startswith("FAILED")]
    print(f"{num_held} of {len(rows)} faults held, {len(runs) - len(failed_runs)} of {len(runs)} runs ended as the "
          f"undisturbed one")
    write_result(args, rows, runs)
    return 0 if num_held == len(rows) and not failed_runs else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--faults", type=lambda text: text.split(","), default=KILLS, metavar="KIND,...",
                        help="kinds that rounds draw from; default: rank,launcher,node; all: with all of the list "
                             "above")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=5 * STEPS_PER_EPOCH,
                        help=f"steps of each run, a multiple of {STEPS_PER_EPOCH}")
    parser.add_argument("--lockstep", type=lambda text: str(pathlib.Path(text).resolve()), default="build/lockstep")
    parser.add_argument("--output", type=pathlib.Path, metavar="FILE.json")
    parser.add_argument("--keep-folder", action="store_true", help="leave the runs for a look")
    args = parser.parse_args()
    known = [*KILLS, *FAILING, *DELAYS]
    args.faults = known if args.faults == ["all"] else args.faults
    if unknown := set(args.faults) - set(known):
        parser.error(f"--faults: {', '.join(sorted(unknown))}; known are {', '.join(known)}, all")
    if args.steps < STEPS_PER_EPOCH or args.steps % STEPS_PER_EPOCH:
        parser.error(f"--steps {args.steps}: it must be a multiple of {STEPS_PER_EPOCH}")
    args.lockstep = str(pathlib.Path(args.lockstep).resolve())
    folder = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-storm-"))
    try:
        return storm(args, folder)
    finally:
        if args.keep_folder:
            print(f"the runs lie in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
