#!/usr/bin/env python3
"""Writes the file of one part of tools/gpu_day.sh: command, exit code, seconds, machine, and the numbers that its
output, its run or its test results hold. Exit code 1 when a part that ended well left nothing to read, skipped every
test, or computed on another device than was asked for."""

import argparse
import json
import pathlib
import statistics
import subprocess
import xml.etree.ElementTree as ElementTree

WARM_UP_STEPS = 5


def text_of(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ''


def test_results(path):
    cases = []
    for case in ElementTree.parse(path).iter('testcase'):
        failure, skipped = case.find('failure'), case.find('skipped')
        said = failure.get('message') if failure is not None else skipped.get('message') if skipped is not None else ''
        cases.append(
            {
                'name': case.get('name'),
                'seconds': float(case.get('time')),
                'said': (said or '')[:400],
                'result': 'failed' if failure is not None else 'skipped' if skipped is not None else 'passed',
                **{one.get('name'): one.get('value') for one in case.iter('property')},
            }
        )
    return cases


def run_summary(folder):
    """Of the steps behind the warm-up, or of all where there are no more."""
    steps = [json.loads(line) for line in (folder / 'steps.jsonl').read_text().splitlines()]
    steps = steps[WARM_UP_STEPS:] or steps
    summary = {'num_steps': len(steps)}
    device = folder / 'profile/device.csv'
    if device.exists():
        names, values = device.read_text().split()
        summary |= {f'device_{key}': float(value) for key, value in zip(names.split(','), values.split(','))}
    for key in sorted({key for step in steps for key, value in step.items() if isinstance(value, (int, float))}):
        values = [step[key] for step in steps if isinstance(step.get(key), (int, float))]
        if key not in ('attempt', 'step'):
            summary[key] = {'median': statistics.median(values), 'most': max(values)}
    return summary


def json_in(output):
    """What the output says in JSON: all of it, or all behind its lines of progress."""
    begin = 0 if output.startswith('{') else output.find('\n{') + 1
    return json.loads(output[begin:])


def planned(command):
    """What the dry run of a training command says of memory."""
    page = text_of(command + ['--dry-run', '--json'])
    try:
        return {key: value for key, value in json.loads(page).items() if 'memory' in key}
    except ValueError:
        return {}


def how_it_ended(document):
    """'ok', 'failed', 'out of time', 'empty' (nothing to read in the end), 'elsewhere' (on another device)."""
    code = document['exit_code']
    if code != 0:
        return 'out of time' if code in (124, 137) else 'failed'
    if document['part'] == 'peers':  # it installs
        return 'ok'
    # Tests that were all skipped, as they are where there is no GPU, tested nothing.
    cases = document.get('cases')
    has_nothing = all(case['result'] == 'skipped' for case in cases) if cases is not None else 'result' not in document
    if has_nothing:
        return 'empty'
    devices = {rank['device'] for rank in document.get('result', {}).get('machine', {}).get('ranks', [])}
    return 'elsewhere' if any(not device.startswith(document['device']) for device in devices) else 'ok'


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ('name', 'device', 'out', 'err', 'run', 'xml', 'file'):
        parser.add_argument('--' + name, required=True)
    parser.add_argument('--exit-code', type=int, required=True)
    parser.add_argument('--seconds', type=int, required=True)
    parser.add_argument('command', nargs='+')
    options = parser.parse_args()
    document = {
        'part': options.name,
        'device': options.device,
        'command': ' '.join(options.command),
        'exit_code': options.exit_code,
        'seconds': options.seconds,
        'commit': text_of(['git', 'rev-parse', '--short', 'HEAD']),
        'gpus': text_of(
            ['nvidia-smi', '--query-gpu=name,driver_version,memory.total', '--format=csv,noheader']
        ).splitlines(),
    }
    output = pathlib.Path(options.out).read_text(errors='replace')
    xml = pathlib.Path(options.xml)
    for part in sorted(xml.parent.glob(xml.name + '.*')):
        document.setdefault('cases', []).extend(test_results(part))
    if (pathlib.Path(options.run) / 'steps.jsonl').exists():
        document['result'] = run_summary(pathlib.Path(options.run))
        document['plan'] = planned(options.command)
    try:
        document['result'] = json_in(output)
    except ValueError:
        document['output'] = output[-3000:]
    document['said'] = pathlib.Path(options.err).read_text(errors='replace')[-3000:]
    document['ended'] = how_it_ended(document)
    pathlib.Path(options.file).write_text(json.dumps(document, indent=1) + '\n')
    return int(document['ended'] in ('empty', 'elsewhere'))


if __name__ == '__main__':
    raise SystemExit(main())
