#!/usr/bin/env python3
"""Time and memory of `lockstep report` over many runs.

Writes whole run records with known step times (runs of 1 to 128 nodes of 4 devices, several jobs each), reports on them
and checks the efficiency it prints before any time counts. Usage: bench/report_many.py build-front/lockstep [--runs
1000] [--steps 1000] [--out bench/results/report_many.json]
"""
import argparse
import json
import os
import pathlib
import platform
import random
import subprocess
import sys
import tempfile
import time

NODES = [1, 2, 4, 8, 16, 32, 64, 128]
LOSS_PER_DOUBLING = 0.02
INTERVAL = 100  # steps


def write_run(folder: pathlib.Path, nodes: int, steps: int, seed: int) -> None:
    folder.mkdir(parents=True)
    rng = random.Random(seed)
    devices, batch = 4 * nodes, 32 * 4 * nodes
    step_ms = 100 * (1 + LOSS_PER_DOUBLING * NODES.index(nodes))
    setup = dict(task="clip", model="ViT-B-32", precision="bf16", device="NVIDIA H100 80GB HBM3", nodes=nodes,
                 devices=devices, global_batch=batch,
                 samples_per_device=32, accum=1, sample_unit="samples", forward_gflops_per_sample=14.78,
                 flops_formula="OpenCLIP profile",
                 peak_tflops_per_device=989, peak_source="datasheet, dense bf16", is_synthetic=False, is_profiled=False)
    attempt = dict(attempt=1, started_s=1.7e9, host="n1", pid=1, setup=setup, slurm_job_id=str(seed))
    (folder / "run.json").write_text(json.dumps(dict(record_version=1, attempts=[attempt])))
    (folder / "status.json").write_text(json.dumps(dict(record_version=1, state="finished", attempt=1,
                                                        heartbeat_s=1.7e9, heartbeat_every_s=10, dropped_lines=0)))
    now, lines = 1.7e9, []
    for step in range(steps):
        ms = step_ms * (1 + 0.005 * rng.gauss(0, 1)) + (step_ms if step < 12 else 0)
        now += ms / 1e3
        lines.append(json.dumps(dict(attempt=1, step=step, epoch=0, samples=batch, samples_seen=batch * (step + 1),
                                     step_ms=round(ms, 3), data_wait_ms=0.2,
                                     samples_per_s=round(1e3 * batch / ms, 2), loss=round(5 / (1 + 0.01 * step), 5),
                                     lr=0.001, time_s=round(now, 4),
                                     phases_ms=dict(data_wait=0.2, h2d=0.5, forward=30, backward=60, exposed_comm=5,
                                                    optimizer=3, other=1.3))))
    (folder / "steps.jsonl").write_text("\n".join(lines) + "\n")
    write_intervals(folder, nodes, steps, step_ms, rng)


def write_intervals(folder: pathlib.Path, nodes: int, steps: int, step_ms: float, rng: random.Random) -> None:
    """What a run records every hundred steps: times of all its ranks, collectives, counters of each node."""
    devices, hosts = 4 * nodes, [f"n{node}" for node in range(nodes)]
    ranks, comm, system = [], [], []
    for end in range(INTERVAL, steps + 1, INTERVAL):
        head = dict(attempt=1, step=end - 1)
        compute = [round(step_ms * (0.9 + 0.002 * rng.gauss(0, 1)), 3) for _ in range(devices)]
        ranks.append(json.dumps(dict(head, num_steps=INTERVAL, step_ms=[round(step_ms, 3)] * devices,
                                     data_wait_ms=[0.2] * devices, compute_ms=compute,
                                     comm_wait_ms=[round(step_ms - ms - 0.2, 3) for ms in compute],
                                     hosts=[hosts[rank // 4] for rank in range(devices)])))
        for kind, size in (("all_reduce", 26214400), ("all_gather", 1048576), ("all_reduce", 24)):
            comm.append(json.dumps(dict(head, kind=kind, axis="dp", group_size=devices, bytes=size, count=6 * end,
                                        time_ms=2.5 * end, blocked_ms=0.5 * end)))
        for host in hosts:
            system.append(json.dumps(dict(head, num_steps=INTERVAL, host=host,
                                          received_bytes={"mlx5_0/1": 6e8, "lo": 1e5},
                                          sent_bytes={"mlx5_0/1": 6e8, "lo": 1e5},
                                          energy_j={"nvml-0": 5e3, "nvml-1": 5e3, "nvml-2": 5e3, "nvml-3": 5e3},
                                          seconds=step_ms * INTERVAL / 1e3)))
    (folder / "ranks.jsonl").write_text("\n".join(ranks) + "\n")
    (folder / "comm.jsonl").write_text("\n".join(comm) + "\n")
    (folder / "system.jsonl").write_text("\n".join(system) + "\n")
    phases = dict(start=800, rendezvous=1200, communicator=9000, weights=3000, loader=15000, first_step=20000)
    (folder / "startup.jsonl").write_text(json.dumps(dict(attempt=1, phases_ms=phases)) + "\n")


def measure(program: str, logs: pathlib.Path, out: pathlib.Path, extra: list) -> dict:
    command = [program, "report", str(logs), *extra] + ([] if "--json" in extra else ["-o", str(out)])
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    text = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{command} ended with {process.returncode}")
    return dict(wall_s=round(time.monotonic() - begin, 3), cpu_s=round(usage.ru_utime + usage.ru_stime, 3),
                peak_mib=round(usage.ru_maxrss / 1024, 1), out=text)


def check(text: str) -> None:
    for curve in json.loads(text)["curves"]:
        for point in curve["points"]:
            expected = 1 / (1 + LOSS_PER_DOUBLING * NODES.index(point["nodes"]))
            if abs(point["efficiency"]["value"] - expected) > 0.005:
                sys.exit(f"wrong efficiency at {point['nodes']} nodes: {point['efficiency']}, expected {expected}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--out")
    args = parser.parse_args()
    cases, load_before = [], os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as scratch:
        for runs in (args.runs // 10, args.runs):
            logs = pathlib.Path(scratch) / f"logs{runs}"
            for index in range(runs):
                write_run(logs / f"run{index:04}", NODES[index % len(NODES)], args.steps, index)
            measured = measure(args.program, logs, pathlib.Path(scratch) / "out", ["--json"])
            check(measured.pop("out"))
            page = measure(args.program, logs, pathlib.Path(scratch) / f"out{runs}", ["--format", "html,csv"])
            page.pop("out")
            cases.append(dict(runs=runs, steps_per_run=args.steps,
                              bytes=sum(f.stat().st_size for f in logs.rglob("*.json*")), json=measured, page=page,
                              page_bytes=(pathlib.Path(scratch) / f"out{runs}" / "report.html").stat().st_size))
            print(json.dumps(cases[-1]), flush=True)
    version = json.loads(subprocess.run([args.program, "--version", "--json"], capture_output=True, text=True,
                                        check=True).stdout)
    result = dict(command=f"bench/report_many.py {args.program} --runs {args.runs} --steps {args.steps}",
                  version=version, cpu=platform.processor() or platform.machine(), cores=os.cpu_count(),
                  system=platform.platform(), load_before=load_before, cases=cases)
    if args.out:
        pathlib.Path(args.out).write_text(json.dumps(result, indent=1) + "\n")


main()
