#!/usr/bin/env python3
"""Adds up the GoogleTest result files of a run: one closing line with the number of cases, and every failure and skip
by name.

usage: summarise_tests.py RESULT_FOLDER BUILD_FOLDER      exit 1 when a case failed or a file is damaged
"""
import pathlib
import re
import sys
import xml.etree.ElementTree as xml


def main() -> int:
    folder, build = pathlib.Path(sys.argv[1]), sys.argv[2]
    passed, failed, skipped = 0, [], []
    for path in sorted(folder.glob("*.xml")):
        try:
            cases = list(xml.parse(path).iter("testcase"))
        except xml.ParseError as error:
            failed.append(f"{path.stem}: its result file is damaged ({error})")
            continue
        for case in cases:
            name = f"{case.get('classname')}.{case.get('name')}"
            if case.find("failure") is not None:
                program = re.sub(r"_[0-9]+$", "", path.stem)  # commands_1.xml is a shard of test_commands
                again = case.get("again") or f"{build}/test_{program} --gtest_filter={name}"
                failed.append(f"{name}   again: {again}")
            elif case.find("skipped") is not None:
                skipped.append(f"{name}: {' '.join((case.find('skipped').get('message') or '').split())[:160]}")
            else:
                passed += 1
    for line in skipped:
        print(f"skipped  {line}")
    for line in failed:
        print(f"FAILED   {line}")
    print(f"{passed} passed, {len(failed)} failed, {len(skipped)} skipped")
    return 1 if failed or passed == 0 else 0


sys.exit(main())
