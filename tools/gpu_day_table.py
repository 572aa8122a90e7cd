#!/usr/bin/env python3
"""Shows what tools/gpu_day.sh measured, as a table of 80 columns.

usage: gpu_day_table.py FOLDER PART...            the table of FOLDER/gpu_PART.json
       gpu_day_table.py --publish TO FOLDER PART...    copies the files of parts that ended well
       gpu_day_table.py --result FILE             what the part's program printed; exit code 1 where there is nothing
"""
import argparse
import json
import pathlib
import shutil
import sys
import textwrap

COLUMNS = 80
NAME, ENDED, SECONDS = 12, 12, 5  # widths of the first columns
KEPT_TOGETHER = '\0'  # stands for a space at which no line is broken


def gb(count):
    return f'{count / 1e9:.1f} GB'


def against_plan(measured, planned):
    if not measured or not planned:
        return []
    return [f'memory {gb(measured)}, planned {gb(planned)} ({100 * (planned / measured - 1):+.0f} %)']


def of_tests(cases):
    def names(result):
        return [case['name'] for case in cases if case['result'] == result]

    told = [f'{len(names("passed"))} passed']
    for result in ('skipped', 'failed'):
        if names(result):
            told.append(f'{len(names(result))} {result}')
    return told + [f'failed: {name}' for name in names('failed')]


def of_operators(rows):
    """The best of each operator and precision."""
    best = {}
    for row in rows:
        for unit, name in (('tflops_per_s', 'TFLOP/s'), ('gbytes_per_s', 'GB/s')):
            if isinstance(row.get(unit), (int, float)):
                key = (row['part'], row['precision'], name)
                best[key] = max(best.get(key, 0), row[unit])
    return [f'{part} {precision} {value:.4g} {unit}' for (part, precision, unit), value in best.items()]


def of_step(row):
    told = [f'{row["step_ms"]:.4g} ms', f'{row["samples_per_s"]:.4g} samples/s']
    if row.get('tflops_per_s_per_device'):
        told.append(f'{row["tflops_per_s_per_device"]:.4g} TFLOP/s')
    share = row.get('mfu_measured_peak_percent') or row.get('mfu_percent')
    if share:
        told.append(f'{share:.3g} % of the peak')
    return told + against_plan(row.get('peak_memory_bytes'), row.get('planned_memory_bytes'))


def of_run(summary, plan):
    told = [f'{summary[key]["median"]:.4g} {unit}' for key, unit in (('step_ms', 'ms'), ('samples_per_s', 'samples/s'))
            if key in summary]
    if 'device_idle_pct' in summary:
        told.append(f'device without a kernel for {summary["device_idle_pct"]:.1f} % of the profiled steps')
    planned = plan.get('memory_bytes') or plan.get('memory_per_rank_bytes', {}).get('total')
    return told + against_plan(summary.get('device_memory_bytes', {}).get('most'), planned)


def of_peers(summary):
    told = []
    for key, ratio in summary.items():
        if key.startswith('ratio_') and key.endswith('_over_lockstep') and isinstance(ratio, (int, float)):
            peer = key[len('ratio_'):-len('_over_lockstep')]
            interval = summary.get(f'ratio_95_{peer}_over_lockstep') or summary.get('ratio_95')
            bounds = f' [{interval[0]:.3g}, {interval[1]:.3g}]' if interval else ''
            told.append(f'{peer.replace("_", " ")} takes {ratio:.3g} times as long{bounds}')
    return told


def measured(document):
    if 'cases' in document:
        return of_tests(document['cases'])
    result = document.get('result') or document
    rows = result.get('rows')
    if rows:
        wrong = sum(row.get('wrong') or 0 for row in rows)
        told = of_step(rows[0]) if 'step_ms' in rows[0] else of_operators(rows)
        return told + ([f'{wrong} wrong values'] if wrong else [])
    if 'num_steps' in result:
        return of_run(result, document.get('plan', {}))
    return of_peers(result.get('summary', result))


def complaint(document):
    """The program's own error, else the last line that speaks of one, else the last line."""
    if document.get('ended') == 'elsewhere':
        return f"it did not compute on the device that was asked for, {document['device']}"
    lines = [line.strip() for text in (document.get('output', ''), document.get('said', ''))
             for line in text.splitlines() if line.strip()]
    own = [line for line in lines if 'lockstep: error: ' in line]
    if own:
        return own[0]
    of_errors = [line for line in lines if 'error' in line.lower()]
    return (of_errors or lines or ['it said nothing'])[-1]


def rows_of(name, document):
    ended = document.get('ended') or ('ok' if document.get('exit_code', 0) == 0 else 'failed')
    try:
        told = measured(document)
    except (KeyError, TypeError, AttributeError, IndexError):  # a part that broke off may have left anything
        told = []
    if ended != 'ok':
        told = told + [complaint(document)]
    begin = f'{name:<{NAME}}{ended:<{ENDED}}{document.get("seconds", 0):>{SECONDS}}  '
    text = '; '.join(told).replace(' %', KEPT_TOGETHER + '%')
    lines = textwrap.wrap(text, COLUMNS - len(begin), break_on_hyphens=False) or ['']
    lines = [line.replace(KEPT_TOGETHER, ' ') for line in lines]
    return [(begin if index == 0 else ' ' * len(begin)) + line for index, line in enumerate(lines)]


def file_of(folder, name):
    return pathlib.Path(folder) / f'gpu_{name}.json'


def print_table(folder, names):
    print(f'{"part":<{NAME}}{"ended":<{ENDED}}{"s":>{SECONDS}}  measured')
    print('-' * COLUMNS)
    for name in names:
        print('\n'.join(line.rstrip() for line in rows_of(name, json.loads(file_of(folder, name).read_text()))))


def publish(to, folder, names):
    for name in names:
        source = file_of(folder, name)
        if json.loads(source.read_text())['ended'] == 'ok':
            shutil.copy(source, to)
            print(f'{pathlib.Path(to) / source.name} is new')
        else:
            print(f'{pathlib.Path(to) / source.name} stays as it is')


def result_of(path):
    """None where the part has not run, or left nothing."""
    try:
        return json.loads(pathlib.Path(path).read_text()).get('result')
    except (OSError, ValueError):
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--publish', metavar='TO')
    parser.add_argument('--result', metavar='FILE')
    parser.add_argument('folder', nargs='?')
    parser.add_argument('parts', nargs='*')
    options = parser.parse_args()
    if options.result:
        result = result_of(options.result)
        if result is None:
            return 1
        json.dump(result, sys.stdout)
    elif options.publish:
        publish(options.publish, options.folder, options.parts)
    else:
        print_table(options.folder, options.parts)
    return 0


if __name__ == '__main__':
    sys.exit(main())
