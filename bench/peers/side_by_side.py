"""What the comparisons of training steps with other programs share: both sides as processes of their own, in turn, and
the paired ratio."""
import json
import math
import os
import pathlib
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time

STUDENT_T_95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228}


def add_arguments(parser, program: str, model: str, batch: int) -> None:
    parser.add_argument("--program", default=program)
    parser.add_argument("--inputs", help="folder of weights and batches (one run of the Python side)")
    parser.add_argument("--model", default=model)
    parser.add_argument("--batch", type=int, default=batch)
    parser.add_argument("--batches", type=int, default=2, help="different batches, used in turn")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32",
                        help="bf16: bf16 autocast over fp32 weights (amp_bf16)")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--warm-up", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--beta1", type=float, default=0.9)
    parser.add_argument("--beta2", type=float, default=0.98)
    parser.add_argument("--eps", type=float, default=1e-6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out")


def run_side(options, inputs: str, side: str) -> dict:
    """One run: of our program ("lockstep"), or of the calling script with the side's name as its job."""
    common = ["--inputs", inputs, "--model", options.model, "--precision", options.precision, "--threads",
              str(options.threads), "--device", options.device,
              "--steps", str(options.steps), "--lr", str(options.lr), "--beta1", str(options.beta1), "--beta2",
              str(options.beta2),
              "--eps", str(options.eps)]
    peer = common + (["--weights", str(options.weights)] if hasattr(options, "weights") else [])
    command = [options.program] + common if side == "lockstep" else [sys.executable, sys.argv[0], side] + peer
    environment = dict(os.environ, OMP_NUM_THREADS=str(options.threads), MKL_NUM_THREADS=str(options.threads))
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"{side} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


class StepClock:
    """Times of steps, which end when the device has done all of them, and the most memory (of a GPU its tensors')."""

    def __init__(self, device: str):
        self.device, self.step_ms, self.cpu_ms, self.losses = device, [], [], []

    def begin(self) -> None:
        self.began, self.cpu_began = time.perf_counter(), time.process_time()

    def end(self, loss) -> None:
        self.losses.append(loss.item())
        if self.device == "cuda":
            import torch
            torch.cuda.synchronize()
        self.step_ms.append((time.perf_counter() - self.began) * 1000)
        self.cpu_ms.append((time.process_time() - self.cpu_began) * 1000)

    def print(self) -> None:
        if self.device == "cuda":
            import torch
            peak = torch.cuda.max_memory_allocated()
        else:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({"step_ms": self.step_ms, "cpu_ms": self.cpu_ms, "losses": self.losses, "peak_bytes": peak}))


def set_up_torch(options) -> None:
    """Threads, and on GPUs what open_clip_train's main sets."""
    import torch

    torch.set_num_threads(options.threads)
    if options.device == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cudnn.benchmark = True


def device_name(device: str) -> str:
    if device == "cpu":
        return f"{processor()}, {os.cpu_count()} cores visible"
    import torch
    return f"{torch.cuda.get_device_name()}, torch for CUDA {torch.version.cuda}"


def paired_ratio(rounds: list, warm_up: int, peer: str, clock: str, own: str = "lockstep") -> dict:
    medians = {side: [statistics.median(r[side][clock][warm_up:]) for r in rounds] for side in (peer, own)}
    logs = [math.log(a / b) for a, b in zip(medians[peer], medians[own])]
    result = {f"{side}_median_{clock}": statistics.median(values) for side, values in medians.items()}
    result["ratio"] = math.exp(statistics.median(logs))
    if len(logs) > 1:
        half = STUDENT_T_95.get(len(logs) - 1, 2.0) * statistics.stdev(logs) / math.sqrt(len(logs))
        result["ratio_95"] = [math.exp(statistics.mean(logs) - half), math.exp(statistics.mean(logs) + half)]
    return result


def summarise(rounds: list, warm_up: int, peer: str) -> dict:
    wall, cpu = (paired_ratio(rounds, warm_up, peer, clock) for clock in ("step_ms", "cpu_ms"))
    result = {f"ratio_{peer}_over_lockstep" if name == "ratio" else name: value for name, value in wall.items()}
    result["processor_time"] = cpu  # of all threads: what remains comparable on a machine that others use
    for side in (peer, "lockstep"):
        result[f"{side}_peak_bytes"] = statistics.median([r[side]["peak_bytes"] for r in rounds])
    pairs = [(a, b) for r in rounds for a, b in zip(r[peer]["losses"], r["lockstep"]["losses"])]
    result["largest_relative_loss_difference"] = max(abs(a - b) / abs(a) for a, b in pairs)
    return result


def compare(options, peer: str, write_inputs, versions: dict) -> None:
    """Rounds of both sides in turn on the inputs that `write_inputs(folder)` leaves."""
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        write_inputs(pathlib.Path(folder))
        for number in range(options.rounds):
            order = (peer, "lockstep") if number % 2 == 0 else ("lockstep", peer)
            rounds.append({side: run_side(options, folder, side) for side in order})
            print(f"round {number + 1}: " + ", ".join(
                f"{side} {statistics.median(rounds[-1][side]['step_ms'][options.warm_up:]):.0f} ms" for side in order),
                  flush=True)
    summary = summarise(rounds, options.warm_up, peer)
    print(json.dumps(summary, indent=1))
    write_record(options, versions, {"summary": summary, "rounds": rounds})


def run_job(options, run_huggingface, write_inputs) -> None:
    """Of a script whose peer is Hugging Face: its own run of a round, or the comparison."""
    if options.job == "huggingface":
        return run_huggingface(options)
    import torch
    import transformers

    compare(options, "huggingface", lambda folder: write_inputs(folder, options),
            {"transformers": transformers.__version__, "torch": torch.__version__})


def write_record(options, versions: dict, content: dict) -> None:
    if not options.out:
        return
    script = pathlib.Path(sys.argv[0]).name
    command = f"python3 bench/peers/{script} " + " ".join(arg if not arg.startswith("/") else pathlib.Path(arg).name
                                                          for arg in sys.argv[1:])
    told = subprocess.run([pathlib.Path(options.program).parent / "lockstep", "--version"], capture_output=True,
                          text=True, check=True).stdout.split()
    versions = {"lockstep": told[1], "commit": told[3]} | versions
    head = {"command": command, "versions": versions,
            "hardware": f"{device_name(getattr(options, 'device', 'cpu'))}, {options.threads} threads"}
    pathlib.Path(options.out).write_text(json.dumps(head | content, indent=1) + "\n")


def processor() -> str:
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()
