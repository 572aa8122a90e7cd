"""What compare_big_clap.py and compare_big_models.py share: running the test program on a case, and the table of its
figures."""
import os
import subprocess


def compare(program, test, variable, path):
    """Figures by name that a test of `program` measures on the case in `path`, which it finds by an environment
    variable."""
    environment = {**os.environ, variable: str(path)}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run([program, f"--gtest_filter={test}"], env=environment, capture_output=True, text=True)
    lines = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("measured: ")]
    if done.returncode != 0 or not lines:
        raise SystemExit(done.stdout + done.stderr)
    return dict(lines)


def table(results):
    """Lines of a Markdown table: a row for each model, a column for each figure of the first."""
    columns = list(next(iter(results.values())))
    rows = [[name] + [figures[column] for column in columns] for name, figures in results.items()]
    lines = ["| " + " | ".join(row) + " |" for row in [["model"] + columns] + rows]
    return [lines[0], "|---" * (len(columns) + 1) + "|", *lines[1:]]
