"""Result files of tests in Python, in GoogleTest's format, which tools/summarise_tests.py adds up."""
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
