#!/usr/bin/env python3
"""What `--remote-sync` costs the steps of a run: without it, to an S3 server, and to one that answers late.

Trains a small CLIP model with checkpoints every ten steps, the three ways in turn, round after round, and compares the
step times of the records. The server is moto behind the gate of tests/support/s3_server.py, on the same machine;
training has one thread, so that a core is left for it. Before any time counts, the copies must have arrived whole.
Usage: bench/remote_sync_steps.py build/lockstep [--rounds 5] [--steps 150]
[--out bench/results/remote_sync_steps.json]
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
SLOW_ANSWER_S = 0.5
SAVE_EVERY = 10
MODEL = dict(embed_dim=256, vision_cfg=dict(image_size=96, layers=4, width=256, patch_size=16),
             text_cfg=dict(context_length=32, vocab_size=49408, width=256, heads=4, layers=4))


class Servers:
    """moto and the gate before it; ended with the block."""

    def __init__(self, folder: pathlib.Path):
        moto = os.environ.get("LOCKSTEP_MOTO_DIR") or next(
            iter(sorted(pathlib.Path.home().glob(".cache/lockstep/s3-server-moto-*[0-9]"))), None)
        if moto is None:
            sys.exit("moto is missing: ./test installs it, or name its folder in LOCKSTEP_MOTO_DIR")
        self.folder, self.environment = folder, dict(os.environ, PYTHONPATH=str(moto))
        self.processes = []
        store = self.start("store", [])
        self.port = self.start("gate", [store])
        self.order(match="")

    def start(self, kind: str, more: list) -> str:
        port_file = self.folder / f"{kind}.port"
        self.processes.append(subprocess.Popen(
            [sys.executable, ROOT / "tests/support/s3_server.py", kind, port_file, *more], env=self.environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        while not port_file.exists():
            time.sleep(0.05)
        return port_file.read_text()

    def order(self, **orders) -> dict:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/_gate", json.dumps(orders).encode())
        return json.loads(urllib.request.urlopen(request).read())

    def variables(self) -> dict:
        return dict(os.environ, AWS_ENDPOINT_URL=f"http://127.0.0.1:{self.port}", AWS_ACCESS_KEY_ID="test",
                    AWS_SECRET_ACCESS_KEY="secret", AWS_CONFIG_FILE="/dev/null",
                    AWS_SHARED_CREDENTIALS_FILE="/dev/null")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()


def make_bucket(servers: Servers) -> None:
    code = ("import boto3; boto3.client('s3', endpoint_url='http://127.0.0.1:%s', aws_access_key_id='test', "
            "aws_secret_access_key='secret', region_name='us-east-1').create_bucket(Bucket='runs')" % servers.port)
    subprocess.run([sys.executable, "-c", code], env=servers.environment, check=True)


def step_times(program: str, servers: Servers, folder: pathlib.Path, way: str, name: str, steps: int) -> list:
    servers.order(delay_s=SLOW_ANSWER_S if way == "slow server" else 0)
    command = [program, "train", "clip", "--model", str(folder / "model.json"), "--dataset-type", "synthetic",
               "--train-num-samples", str(8 * steps), "--batch-size", "8", "--max-steps", str(steps),
               "--threads", "1", "--precision", "fp32", "--workers", "1", "--keep", "2",
               "--save-every-n-steps", str(SAVE_EVERY),
               "--logs", str(folder), "--name", name, "--report-to", "none"]
    if way != "none":
        command += ["--remote-sync", "s3://runs/copies", "--remote-sync-frequency", "1"]
    done = subprocess.run(command, env=servers.variables(), capture_output=True, text=True)
    if done.returncode != 0 or (way != "none" and "the run has arrived" not in done.stderr):
        sys.exit(f"{command} ended with {done.returncode}: {done.stderr[-2000:]}")
    lines = [json.loads(line) for line in (folder / name / "steps.jsonl").read_text().splitlines()]
    return [line["step_ms"] for line in lines[len(lines) // 5:]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--out")
    args = parser.parse_args()
    ways = ["none", "server", "slow server"]
    medians, p99 = {way: [] for way in ways}, {way: [] for way in ways}
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as scratch, Servers(pathlib.Path(scratch)) as servers:
        folder = pathlib.Path(scratch)
        (folder / "model.json").write_text(json.dumps(MODEL))
        make_bucket(servers)
        for number in range(args.rounds):
            for way in ways[number % 3:] + ways[:number % 3]:
                name = f"r{number}-{ways.index(way)}"
                times = sorted(step_times(args.program, servers, folder, way, name, args.steps))
                medians[way].append(statistics.median(times))
                p99[way].append(times[int(0.99 * len(times))])
                print(f"round {number} {way:12} median {medians[way][-1]:8.2f} ms  p99 {p99[way][-1]:8.2f} ms",
                      flush=True)
    ratios = {way: sorted(a / b for a, b in zip(medians[way], medians["none"])) for way in ways[1:]}
    for way, values in ratios.items():
        print(f"{way}: {statistics.median(values):.3f} ({values[0]:.3f} to {values[-1]:.3f}) of the step time without")
    if args.out:
        version = json.loads(subprocess.run([args.program, "--version", "--json"], capture_output=True, text=True,
                                            check=True).stdout)
        result = dict(command=f"bench/remote_sync_steps.py {args.program} --rounds {args.rounds} --steps {args.steps}",
                      version=version, load_before=load, save_every=SAVE_EVERY, slow_answer_s=SLOW_ANSWER_S,
                      median_step_ms=medians, p99_step_ms=p99, ratios=ratios)
        pathlib.Path(args.out).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
