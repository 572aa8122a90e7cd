#!/usr/bin/env python3
"""Holds the mutations of mutate_device_path.py and their results to the sources as they are.

usage: mutations_test.py [XML_FILE]
"""
import json
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/support"), str(ROOT / "tests/tools")]
import mutate_device_path  # noqa: E402  found by the line above
from case_xml import run_test_case  # noqa: E402


MOST_OUT_OF_DATE = 1 / 2
BLANK = "\n".join(mutation[2] for mutation in mutate_device_path.MUTATIONS)  # in which each text stands


def rows_of_results():
    return json.loads((ROOT / "bench/results/device_mutations.json").read_text())["mutations"]


class Mutations(unittest.TestCase):
    def test_the_text_of_each_stands_once_in_its_file(self):
        self.assertEqual(mutate_device_path.not_found_once(), [])

    def test_each_that_was_run_was_noticed(self):
        found = {row["name"]: (row.get("removed"), row["result"]) for row in rows_of_results()}
        wanted = {name: (old.strip(), "noticed") for name, _, old, *_ in mutate_device_path.MUTATIONS}
        differing = sorted(name for name, row in found.items() if row != wanted.get(name))
        self.assertEqual(differing, [], "run these with mutate_device_path.py --scratch FOLDER --only NAME...")

    def test_few_were_not_run_on_the_code_as_it_is(self):
        """An edit of a function costs nobody a run at once; what adds up is run again (CONTRIBUTING.md)."""
        old, num_all = mutate_device_path.out_of_date(rows_of_results()), len(mutate_device_path.MUTATIONS)
        print(f"{len(old)} of {num_all} mutations were never run, or before their function changed: {', '.join(old)}")
        self.assertLessEqual(len(old), num_all * MOST_OUT_OF_DATE,
                             "run mutate_device_path.py --scratch FOLDER --out-of-date")

    def test_a_row_ages_with_the_code_of_its_function_alone(self):
        name, file, part, *_ = mutate_device_path.MUTATIONS[0]
        text = f"void other() {{\n  f();\n}}\n\n// Words.\nvoid own() {{\n  g();\n{part}\n}}\n\nint last() {{\n}}\n"

        def is_old(now):
            rows = [{"name": name, "code": mutate_device_path.code_of(text, part)}]
            return name in mutate_device_path.out_of_date(rows, lambda path: now if path == file else BLANK)

        self.assertFalse(is_old(text))
        self.assertFalse(is_old(text.replace("f();", "h();").replace("// Words.", "// Others.\n//\n")))
        self.assertTrue(is_old(text.replace("g();", "h();")))


if __name__ == "__main__":
    sys.exit(run_test_case(Mutations, "python3 tests/tools/mutations_test.py"))
