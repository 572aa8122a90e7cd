#!/usr/bin/env python3
"""Searches every fuzz target for a while and writes the table of what that came to.

usage: tools/fuzz_table.py [--seconds 60] [--runs 10000000] [--jobs 2] [--output bench/results/fuzz.md] [TARGET...]

Each target ends after --seconds or --runs, whatever comes first, and goes on with the corpus of the searches before
it. Edges are those of its parser that some input has taken, as libFuzzer counts them. Exit code 1 where something was
found.
"""
import argparse
import concurrent.futures
import datetime
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = """# Fuzzing

After reading this page you know how often each parser of foreign bytes was tried, how much of it that reached, and what
was found.

`tools/fuzz_table.py {arguments}` (libFuzzer of clang 19, address and undefined-behaviour
sanitizers), {jobs} at a time, {day}: {total:,} executions in all, {found}.
A target ended after {seconds} s or {runs:,} executions. Edges are the branches that some input has taken.

| target | executions | a second | edges | found |
|---|---|---|---|---|
{rows}
"""


def names():
    said = subprocess.run([str(ROOT / "tools/fuzz.sh")], capture_output=True, text=True, check=False)
    listed = re.search(r"must be one of:(.*)", said.stdout + said.stderr)
    if not listed:
        sys.exit(said.stdout + said.stderr)
    return listed[1].split()


def search(target, seconds, runs):
    done = subprocess.run([str(ROOT / "tools/fuzz.sh"), target, str(seconds), f"-runs={runs}"], capture_output=True,
                          text=True, errors="replace", check=False)
    said = done.stdout + done.stderr
    executions = re.search(r"stat::number_of_executed_units:\s*(\d+)", said)
    rate = re.search(r"stat::average_exec_per_sec:\s*(\d+)", said)
    edges = re.findall(r"\bcov: (\d+)", said)
    return {"target": target, "executions": int(executions[1]) if executions else 0,
            "rate": int(rate[1]) if rate else 0, "edges": int(edges[-1]) if edges else 0,
            "found": "none" if done.returncode == 0 else f"exit code {done.returncode}", "said": said}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--runs", type=int, default=10**7)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "bench/results/fuzz.md")
    parser.add_argument("targets", nargs="*")
    options = parser.parse_args()
    known = names()
    if unknown := set(options.targets) - set(known):
        parser.error(f"no target {', '.join(sorted(unknown))}; known are {', '.join(known)}")
    rows = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        jobs = [pool.submit(search, target, options.seconds, options.runs) for target in options.targets or known]
        for job in concurrent.futures.as_completed(jobs):
            row = job.result()
            rows.append(row)
            print(f"{row['target']:16} {row['executions']:12,} {row['rate']:8,}/s {row['edges']:7,} {row['found']}",
                  flush=True)
            if row["found"] != "none":
                print(row["said"][-3000:])
    rows.sort(key=lambda row: row["target"])
    broken = [row for row in rows if row["found"] != "none"]
    arguments = f"--seconds {options.seconds}" + (f" --runs {options.runs}" if options.runs != 10**7 else "")
    options.output.write_text(PAGE.format(
        arguments=arguments, jobs=options.jobs, day=datetime.date.today().isoformat(), seconds=options.seconds,
        runs=options.runs, total=sum(row["executions"] for row in rows),
        found=f"something found in {len(broken)} targets" if broken else "nothing found",
        rows="\n".join(f"| {row['target']} | {row['executions']:,} | {row['rate']:,} | {row['edges']:,} | "
                       f"{row['found']} |" for row in rows)))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
