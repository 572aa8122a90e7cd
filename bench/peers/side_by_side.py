"""What the comparisons with other programs share: both sides as processes of their own, in turn, and the paired
ratio."""
import json
import math
import os
import pathlib
import platform
import resource
import signal
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


class Turns:
    """Two or more programs of which one runs at a time, while the others are stopped: what else happens to the machine
    then happens to all of them. Programs must not wait for one another. Ended at the end of a `with`."""

    def __init__(self, commands: dict, **more):
        self.stopped = {side: [] for side in commands}  # [from, to] in seconds since 1970; the last may be open
        self.messages = {side: tempfile.TemporaryFile() for side in commands}
        self.processes = {}
        try:
            for side, command in commands.items():
                self.processes[side] = subprocess.Popen(command, stdout=self.messages[side], stderr=subprocess.STDOUT,
                                                        start_new_session=True, **more)
                self._stop(side)
        except BaseException:
            self.__exit__()  # what is stopped would stay so for ever
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        for process in self.processes.values():
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _stop(self, side: str) -> None:
        if self.processes[side].returncode is None:
            os.killpg(self.processes[side].pid, signal.SIGSTOP)
            self.stopped[side].append([time.time(), math.inf])

    def let_run(self, side: str, is_enough) -> bool:
        """Until `is_enough()`, asked every few milliseconds, or the program ends; whether it still lives."""
        process = self.processes[side]
        if process.returncode is not None:
            return False
        self.stopped[side][-1][1] = time.time()
        os.killpg(process.pid, signal.SIGCONT)
        while not is_enough():
            ended, status, _ = os.wait4(process.pid, os.WNOHANG)
            if ended:
                process.returncode = os.waitstatus_to_exitcode(status)
                if process.returncode != 0:
                    self.messages[side].seek(0)
                    sys.exit(f"{side} failed:\n" + self.messages[side].read().decode(errors="replace"))
                return False
            time.sleep(0.003)
        self._stop(side)
        return True

    def let_run_for(self, side: str, seconds: float) -> bool:
        until = time.time() + seconds
        return self.let_run(side, lambda: time.time() >= until)

    def running_s(self, side: str, begin_s: float, end_s: float) -> float:
        """Of the time between two moments that in which the program was not stopped."""
        return end_s - begin_s - sum(max(0.0, min(end, end_s) - max(begin, begin_s))
                                     for begin, end in self.stopped[side])

    def cpu_s(self, side: str) -> float:
        """Processor time of a program that has not ended, of all its threads."""
        fields = pathlib.Path(f"/proc/{self.processes[side].pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def running_times(commands: dict, turn_s: float, **more) -> dict:
    """Seconds in which each program ran, from its start to its end, when they run in short turns."""
    began, ended = time.time(), {}
    with Turns(commands, **more) as turns:
        while len(ended) < len(commands):
            for side in commands:
                if side not in ended and not turns.let_run_for(side, turn_s):
                    ended[side] = time.time()
        return {side: turns.running_s(side, began, ended[side]) for side in commands}


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
