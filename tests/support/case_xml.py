"""Result files of tests in Python, in GoogleTest's format, which tools/summarise_tests.py adds up."""
import pathlib
import sys
import time
import unittest
import xml.etree.ElementTree as xml


def write_cases(path, suite, cases):
    """Writes `cases`, tuples (name, seconds, problem or "", command that runs it again), as the suite's file."""
    root = xml.Element("testsuite", name=suite, tests=str(len(cases)))
    for name, seconds, problem, again in cases:
        case = xml.SubElement(root, "testcase", classname=suite, name=name, time=f"{seconds:.3f}", again=again)
        if problem:
            xml.SubElement(case, "failure", message=problem.splitlines()[0]).text = problem
    path.parent.mkdir(parents=True, exist_ok=True)
    xml.ElementTree(root).write(path, encoding="unicode")


def run_test_case(test_case, again):
    """Runs a unittest.TestCase; sys.argv[1], where given, is its result file. Returns the exit code."""
    seconds = {}

    class TimedResult(unittest.TextTestResult):
        def startTest(self, test):
            super().startTest(test)
            seconds[test.id()] = -time.monotonic()

        def stopTest(self, test):
            super().stopTest(test)
            seconds[test.id()] += time.monotonic()

    tests = unittest.defaultTestLoader.loadTestsFromTestCase(test_case)
    result = unittest.TextTestRunner(resultclass=TimedResult).run(tests)
    if len(sys.argv) > 1:
        problems = {test.id(): text for test, text in result.failures + result.errors}
        write_cases(pathlib.Path(sys.argv[1]), test_case.__name__,
                    [(name.rpartition(".test_")[2], taken, problems.get(name, ""), again)
                     for name, taken in seconds.items()])
    return 0 if result.wasSuccessful() else 1
