#!/usr/bin/env python3
"""Searches the fuzz targets for a while, adds what that came to to all earlier searches, and writes the table.

usage: tools/fuzz_table.py [--seconds 60] [--total 10000000] [--jobs 2] [--results bench/results/fuzz.json] [TARGET...]

Executions add up over searches until a target has --total of them; such a target is searched no more, and of the others
the one that will have them soonest comes first. Each is searched for --seconds at most, with the corpus of the searches
before it. --results holds every search and every find; the page beside it (fuzz.md) is made from that. Exit code 1
where something was found: its input and how to go on are in tools/fuzz.sh; when it is mended, say in the results what
it was ("finds").
"""
import argparse
import collections
import concurrent.futures
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import textwrap
import threading

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = """# Fuzzing

After reading this page you know how often each parser of foreign bytes was tried, how much of it that reached, and what
was found.

`tools/fuzz_table.py` (libFuzzer of clang 19, address and undefined-behaviour sanitizers) adds each search to
[fuzz.json](fuzz.json) and makes this page from it. All {num_searches} searches together, the last on {day}:
{total:,} executions. {num_done} of {num_targets} targets have their {wanted:,}.

`a second` and `edges` are of a target's last search that counted them: executions in a second of processor time,
starting and reading the corpus included (-: none was timed), and the branches that some input has taken.

| target | executions | a second | edges | found |
|---|---|---|---|---|
{rows}

{finds}
"""


def names():
    said = subprocess.run([str(ROOT / "tools/fuzz.sh")], capture_output=True, text=True, check=False)
    listed = re.search(r"must be one of:(.*)", said.stdout + said.stderr)
    if not listed:
        sys.exit(said.stdout + said.stderr)
    return listed[1].split()


def search(target, seconds, runs):
    """One search, as the results keep it, and what the fuzzer said."""
    done = subprocess.run([str(ROOT / "tools/fuzz.sh"), target, str(seconds), f"-runs={runs}"], capture_output=True,
                          text=True, errors="replace", check=False)
    said = done.stdout + done.stderr
    executions = re.search(r"stat::number_of_executed_units:\s*(\d+)", said)
    cpu_s = re.search(r"stat::cpu_seconds:\s*([\d.]+) ([\d.]+)", said)
    edges = re.findall(r"\bcov: (\d+)", said)
    row = {"executions": int(executions[1]) if executions else 0, "edges": int(edges[-1]) if edges else 0}
    if cpu_s and (spent := float(cpu_s[1]) + float(cpu_s[2])) > 0:
        row["rate"] = round(row["executions"] / spent)
    if done.returncode != 0:
        row["exit_code"] = done.returncode
    return row, said


def sums(results):
    """{target: executions of all searches, and what else its last one says; the rate of the last one that has it}"""
    found = {}
    for one in results["searches"]:
        for target, row in one["targets"].items():
            before = found.get(target, {"executions": 0})
            rate = {"rate": before["rate"]} if "rate" in before else {}
            found[target] = {**rate, **row, "executions": before["executions"] + row["executions"]}
    return found


def still_to_search(targets, done, total):
    """Targets without their executions, the one that will have them soonest first."""
    def missing_s(target):
        row = done.get(target, {})
        return (total - row["executions"]) / row["rate"] if row.get("rate") else float("inf")
    return sorted((target for target in targets if done.get(target, {"executions": 0})["executions"] < total),
                  key=missing_s)


def found_text(row, num_mended):
    texts = [f"{num_mended}, mended"] if num_mended else []
    if "exit_code" in row:
        texts.append(f"exit code {row['exit_code']}")
    return "; ".join(texts) or "none"


def rate_text(row):
    return f"{row['rate']:,}" if "rate" in row else "-"


def page(results, total):
    done = sums(results)
    finds = collections.Counter(find["target"] for find in results["finds"])
    rows = [f"| {target} | {row['executions']:,} | {rate_text(row)} | {row['edges']:,} | "
            f"{found_text(row, finds[target])} |" for target, row in sorted(done.items())]
    told = [textwrap.fill(f"- {find['target']}, {find['day']}: {find['what']}", 120, subsequent_indent="  ")
            for find in results["finds"]]
    return PAGE.format(
        num_searches=len(results["searches"]), day=max(one["day"] for one in results["searches"]),
        total=sum(row["executions"] for row in done.values()), wanted=total, num_targets=len(done),
        num_done=sum(row["executions"] >= total for row in done.values()), rows="\n".join(rows),
        finds="Found, each mended and its input kept in `fuzz/regressions`:\n\n" + "\n".join(told) if told
        else "Nothing was found.")


def write(path, text):
    """Whole or not at all: a search may be ended at any moment."""
    aside = path.with_name(path.name + ".new")
    aside.write_text(text, encoding="utf-8")
    os.replace(aside, path)


def write_results(results, path, total):
    searches = []
    for one in results["searches"]:
        head = {key: value for key, value in one.items() if key != "targets"}
        rows = ",\n".join(f"    {json.dumps(target)}: {json.dumps(row)}" for target, row in one["targets"].items())
        searches.append(f'  {json.dumps(head)[:-1]}, "targets": {{\n{rows}\n  }}}}')
    finds = ",\n".join("  " + json.dumps(find) for find in results["finds"])
    write(path, '{\n "searches": [\n' + ",\n".join(searches) + '\n ],\n "finds": [\n' + finds + "\n ]\n}\n")
    write(path.with_suffix(".md"), page(results, total))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--total", type=int, default=10**7)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench/results/fuzz.json")
    parser.add_argument("targets", nargs="*")
    options = parser.parse_args()
    known = names()
    if unknown := set(options.targets) - set(known):
        parser.error(f"no target {', '.join(sorted(unknown))}; known are {', '.join(known)}")
    results = {"searches": [], "finds": []}
    if options.results.exists():
        results = json.loads(options.results.read_text(encoding="utf-8"))
    done = sums(results)
    found = {}
    results["searches"].append({"day": datetime.date.today().isoformat(), "seconds": options.seconds, "targets": found})
    is_broken = False
    lock = threading.Lock()

    def search_and_add(target):
        nonlocal is_broken
        before = done.get(target, {"executions": 0})["executions"]
        row, said = search(target, options.seconds, options.total - before)
        with lock:
            found[target] = row
            write_results(results, options.results, options.total)
            print(f"{target:16} {row['executions']:12,} {row.get('rate', 0):8,}/s {row['edges']:7,} edges, "
                  f"{before + row['executions']:12,} in all", flush=True)
            if "exit_code" in row:
                is_broken = True
                print(f"{target}: exit code {row['exit_code']}\n{said[-3000:]}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(search_and_add, still_to_search(options.targets or known, done, options.total)))
    return 1 if is_broken else 0


if __name__ == "__main__":
    sys.exit(main())
