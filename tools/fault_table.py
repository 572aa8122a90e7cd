#!/usr/bin/env python3
"""What each way to fail does to a run: seconds until every rank has ended, exit codes, what the record says, and
whether the run, resumed, ends with the parameters of one that nobody disturbed, bit for bit.

usage: tools/fault_table.py [--build build] [--transports gloo,accelerator] [--faults NAME,...] [--output FILE.json]

Ranks are started as srun starts them, without a launcher that would end the others. Transport `accelerator` is the
simulated one of the tests, whose collectives wait for ever as NCCL's do. Faults of files are made by
tools/faulty_files.c, which needs a C compiler; the store of `store_gone` is served by the Python half of LibTorch's
wheel (LOCKSTEP_TORCH_DIR), as torchrun's agent does. tools/fault_storm.py makes the same faults at random moments.

Exit code: 0 when every fault ended as it should, 1 else. Rows are added to the file, the fault's older row goes.
"""

import argparse
import hashlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
NUM_RANKS, STEPS, SAVE_EVERY, FAULT_STEP = 3, 40, 5, 12
LIMIT_S = 300  # for anything to happen
STALL_S = 60
LIMIT_OF_COLLECTIVES = ['--dist-timeout', '20']  # shorter than files stall

TINY_CLIP = {
    'embed_dim': 32,
    'vision_cfg': {'image_size': 32, 'layers': 2, 'width': 32, 'head_width': 16, 'patch_size': 8},
    'text_cfg': {'context_length': 16, 'vocab_size': 49408, 'width': 32, 'heads': 2, 'layers': 2},
}
SERVE_STORE = (
    "import sys, datetime; sys.path.insert(0, sys.argv[1]); from torch.distributed import TCPStore\n"
    "store = TCPStore('127.0.0.1', int(sys.argv[2]), is_master=True, wait_for_workers=False)\n"
    "print('serves', flush=True); import signal; signal.pause()"
)


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def wait_until(condition, what):
    end = time.time() + LIMIT_S
    while not condition():
        if time.time() > end:
            raise TimeoutError(what)
        time.sleep(0.02)


class Job:
    """The ranks of one start."""

    def __init__(self, setup, name, faults='', more=(), folder='', resumes=False, store=None):
        self.setup, self.run = setup, setup.logs / name
        port = store or free_port()
        arguments = setup.arguments + ['--name', name, *more] + (['--resume', 'latest'] if resumes else [])
        self.ranks, self.errors = [], []
        for rank in range(NUM_RANKS):
            environment = dict(
                os.environ,
                RANK=str(rank),
                LOCAL_RANK=str(rank),
                WORLD_SIZE=str(NUM_RANKS),
                LOCAL_WORLD_SIZE=str(NUM_RANKS),
                MASTER_ADDR='127.0.0.1',
                MASTER_PORT=str(port),
                LOCKSTEP_FAULT=faults,
                LD_PRELOAD=str(setup.faulty_files),
                FAULTY_FOLDER=str(self.run / folder),
                FAULTY_TRIGGER=str(setup.trigger(rank)),
                **setup.environment,
            )
            if store:
                environment['TORCHELASTIC_USE_AGENT_STORE'] = 'True'
            self.errors.append(setup.logs / f'{name}.rank{rank}.err')
            with open(self.errors[-1], 'w') as log:
                self.ranks.append(
                    subprocess.Popen(
                        [setup.engine] + arguments,
                        env=environment,
                        stderr=log,
                        stdout=subprocess.DEVNULL,
                        start_new_session=True,
                    )
                )

    def last_step(self):
        try:
            return json.loads((self.run / 'steps.jsonl').read_text().strip().rpartition('\n')[2])['step']
        except (OSError, ValueError):
            return -1

    def reach(self, step):
        wait_until(lambda: self.last_step() >= step or any(r.poll() is not None for r in self.ranks), f'step {step}')

    def alive(self, without=()):
        return [i for i, rank in enumerate(self.ranks) if i not in without and rank.poll() is None]

    def end(self, without=()):
        wait_until(lambda: not self.alive(without), 'the end of the ranks')

    def codes(self):
        return [rank.poll() if rank.poll() is None or rank.poll() >= 0 else 128 - rank.poll() for rank in self.ranks]

    def says(self, rank):
        lines = [line for line in self.errors[rank].read_text().splitlines() if 'lockstep: error' in line]
        return lines[-1].partition('error: ')[2] if lines else ''

    def kill(self, rank, number=signal.SIGKILL):
        os.kill(self.ranks[rank].pid, number)

    def clean_up(self):
        for rank in self.ranks:
            if rank.poll() is None:
                rank.kill()
            rank.wait()


class Setup:
    """One transport."""

    def __init__(self, transport, build, logs, faulty_files):
        self.transport, self.logs, self.faulty_files = transport, logs, faulty_files
        on_device = transport == 'accelerator'
        self.engine = str(build / ('lockstep-engine-on-accelerator' if on_device else 'lockstep-engine'))
        self.environment = {'LOCKSTEP_TEST_DEVICES': str(NUM_RANKS)} if on_device else {}
        (logs / 'tiny.json').write_text(json.dumps(TINY_CLIP))
        self.arguments = (
            f'train clip --dataset-type synthetic --train-num-samples {2 * NUM_RANKS * STEPS} --epochs 1 '
            f'--model {logs}/tiny.json --batch-size 2 --workers 1 --precision fp32 --lr 1e-3 --warmup 5 '
            f'--log-every-n-steps 1 --threads 1 --save-every-n-steps {SAVE_EVERY} --keep 3 '
            f'--local-loss --gather-with-grad --device {"auto" if on_device else "cpu"} --logs {logs}'
        ).split()

    def trigger(self, rank):
        return self.logs / f'trigger.{rank}'


def tensors_of(run):
    newest = max((run / 'checkpoints').glob('step-*'), key=lambda folder: int(folder.name.split('.')[0].split('-')[1]))
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(newest.glob('*.safetensors'))}


# Each returns when the fault has happened: the ranks that are to be waited for are all but those it returns.
def die_in_forward(job):
    wait_until(lambda: job.ranks[1].poll() is not None, 'the death of rank 1')


def die_in_collective(job):  # rank 0 computes for 5 s, the others wait for it
    job.reach(FAULT_STEP - 3)
    before = -2
    while before != job.last_step():
        before = job.last_step()
        time.sleep(1.5)
    job.kill(1)


def die_in_checkpoint(job):  # the files of rank 1 stand still, half written
    job.reach(FAULT_STEP)
    job.setup.trigger(1).write_text('stall 0')
    job.reach(FAULT_STEP // SAVE_EVERY * SAVE_EVERY + SAVE_EVERY + 1)
    time.sleep(1)
    job.kill(1)


def stop_rank(job, rank=1):
    job.reach(FAULT_STEP)
    job.kill(rank, signal.SIGSTOP)
    return [rank]


def stop_rank_zero(job):
    return stop_rank(job, 0)


def kill_rank_zero(job):
    job.reach(FAULT_STEP)
    job.kill(0)


def lose_store(job):
    job.reach(FAULT_STEP)
    job.store.kill()


def stall_files(job):
    job.reach(FAULT_STEP)
    for rank in range(NUM_RANKS):
        job.setup.trigger(rank).write_text('stall 0')
    time.sleep(STALL_S)
    for rank in range(NUM_RANKS):
        job.setup.trigger(rank).unlink()


ZERO1 = ['--grad-sync', 'zero1']
# What ranks say that lost rank 1; rank 0, by itself or by its store; the store: one of these texts.
ONE, ZERO, STORE = ['rank 1 (pid '], ['rank 0 (pid ', ', served by rank 0'], ["the job's store at "]
# Name, words, function, LOCKSTEP_FAULT, exit codes of the ranks, what those with code 3 say, and so does the record
# where it names ranks, and the rank that it may call the first failing one.
FAULTS = [
    (
        'forward',
        'rank 1 killed in its forward pass',
        die_in_forward,
        f'die rank=1 from={FAULT_STEP}',
        [3, 137, 3],
        ONE,
        1,
    ),
    (
        'collective',
        'rank 1 killed while it waits in a collective',
        die_in_collective,
        f'slow-compute rank=0 from={FAULT_STEP} to={FAULT_STEP + 1} ms=5000',
        [3, 137, 3],
        ONE,
        1,
    ),
    ('checkpoint', 'rank 1 killed while it writes a checkpoint', die_in_checkpoint, '', [3, 137, 3], ONE, 1),
    ('stopped', 'rank 1 stopped (SIGSTOP), woken when the others have ended', stop_rank, '', [3, 3, 3], ONE, 1),
    ('rank_zero', 'rank 0, which serves the store, killed', kill_rank_zero, '', [137, 3, 3], ZERO, 0),
    (
        'rank_zero_stopped',
        'rank 0, which serves the store, stopped; woken when the others have ended',
        stop_rank_zero,
        '',
        [3, 3, 3],
        ZERO,
        0,
    ),
    ('store_gone', 'the store, served by a process of its own, killed', lose_store, '', [3, 3, 3], STORE, None),
    ('stalled_files', f'no write of a checkpoint returns for {STALL_S} s', stall_files, '', [0, 0, 0], [], None),
    ('stalled_files_ddp', 'the same, where rank 0 writes all', stall_files, '', [0, 0, 0], [], None),
]
# What a fault's run has beside the options of all.
MORE = {
    'stalled_files': ZERO1 + LIMIT_OF_COLLECTIVES,
    'stalled_files_ddp': ['--grad-sync', 'ddp'] + LIMIT_OF_COLLECTIVES,
}
# Of the run, where faults of files are; '': everywhere. A record that cannot be written stops rank 0 in a step.
FAULTY_FOLDERS = {'stalled_files': 'checkpoints', 'stalled_files_ddp': 'checkpoints'}


def options_of(fault):
    return MORE.get(fault[0], ZERO1)


def serve_store(port):
    server = subprocess.Popen(
        [sys.executable, '-c', SERVE_STORE, os.environ['LOCKSTEP_TORCH_DIR'], str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    server.stdout.readline()
    return server


def make_row(setup, undisturbed, fault):
    name, words, happen, variable, codes, texts, lost = fault
    more = options_of(fault)
    port = free_port() if happen is lose_store else None
    server = serve_store(port) if port else None
    job = Job(setup, name, variable, more, FAULTY_FOLDERS.get(name, ''), store=port)
    job.store = server
    try:
        late = happen(job) or []
        began = time.time()
        job.end(late)
        seconds = time.time() - began
        for rank in late:
            job.kill(rank, signal.SIGCONT)
        job.end()
        file = job.run / 'status.json'
        status = json.loads(file.read_text()) if file.exists() else {}
        said = [job.says(rank) for rank in range(NUM_RANKS)]
        row = {
            'transport': setup.transport,
            'fault': name,
            'what': words,
            'seconds_to_end': round(seconds, 1),
            'exit_codes': job.codes(),
            'step': job.last_step(),
            'record': {
                'state': status.get('state'),
                'first_failing_rank': status.get('first_failing_rank'),
                'message': (status.get('message') or '')[:300],
            },
            'ranks_say': [text[:300] for text in said],
        }
        if late:
            row['seconds_after_waking'] = round(time.time() - began - seconds, 1)
    finally:
        job.clean_up()
        for rank in range(NUM_RANKS):
            setup.trigger(rank).unlink(missing_ok=True)
        if server:
            server.kill()
            server.wait()
    again = Job(setup, name, more=more, resumes=True) if any(row['exit_codes']) else None
    if again:
        try:
            again.end()
            row['resume'] = {'exit_codes': again.codes()}
        finally:
            again.clean_up()
    row['same_parameters'] = tensors_of(job.run) == undisturbed
    tells_end = row['record']['state'] != 'running'  # without waiting for the heartbeat to grow old
    survivors = [rank for rank in range(NUM_RANKS) if codes[rank] == 3 and rank not in late]
    names_lost = all(any(text in said[rank] for text in texts) for rank in survivors)
    blames_nobody_else = blames_only(lost, texts, status.get('first_failing_rank'), status.get('message') or '')
    row['is_right'] = (
        row['exit_codes'] == codes and row['same_parameters'] and tells_end and names_lost and blames_nobody_else
    )
    return row


def blames_only(lost, texts, first_failing_rank, message):
    """Whether a record that names ranks names the one that was stopped or killed."""
    names_ranks = re.search(r'rank \d+ \(pid ', message)
    return first_failing_rank in (None, lost) and (not names_ranks or any(text in message for text in texts))


def run_undisturbed(setup, more):
    job = Job(setup, 'undisturbed_' + more[1], more=more)
    job.end()
    if job.codes() != [0] * NUM_RANKS:
        sys.exit(
            f'the undisturbed run on {setup.transport} failed: {job.codes()} {job.errors[0].read_text()[-2000:]}'
        )
    return tensors_of(job.run)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', default=str(ROOT / 'build'))
    parser.add_argument('--transports', default='gloo,accelerator')
    parser.add_argument('--faults', default=','.join(fault[0] for fault in FAULTS))
    parser.add_argument('--output', default=str(ROOT / 'bench/results/device_faults.json'))
    options = parser.parse_args()
    chosen = options.faults.split(',')
    output = pathlib.Path(options.output)
    rows = json.loads(output.read_text())['rows'] if output.exists() else []
    with tempfile.TemporaryDirectory(prefix='lockstep_faults_') as folder:
        library = pathlib.Path(folder) / 'faulty_files.so'
        subprocess.run(
            ['cc', '-O1', '-shared', '-fPIC', '-o', library, ROOT / 'tools/faulty_files.c', '-ldl'], check=True
        )
        for transport in options.transports.split(','):
            logs = pathlib.Path(folder) / transport
            logs.mkdir()
            setup = Setup(transport, pathlib.Path(options.build).resolve(), logs, library)
            undisturbed = {}
            for fault in [fault for fault in FAULTS if fault[0] in chosen]:
                sharing = options_of(fault)[:2]
                if sharing[1] not in undisturbed:
                    undisturbed[sharing[1]] = run_undisturbed(setup, sharing)
                try:
                    row = make_row(setup, undisturbed[sharing[1]], fault)
                except TimeoutError as error:
                    row = {
                        'transport': transport,
                        'fault': fault[0],
                        'what': fault[1],
                        'is_right': False,
                        'problem': f'waited {LIMIT_S} s for {error}',
                    }
                rows = [r for r in rows if (r['transport'], r['fault']) != (transport, fault[0])] + [row]
                print(json.dumps(row, indent=1), flush=True)
                names = [fault[0] for fault in FAULTS]
                rows.sort(key=lambda r: (r['transport'] != 'gloo', names.index(r['fault'])))
                output.write_text(
                    json.dumps(
                        {
                            'command': 'tools/fault_table.py',
                            'ranks': NUM_RANKS,
                            'cpu_cores': os.cpu_count(),
                            'load': os.getloadavg()[0],
                            'rows': rows,
                        },
                        indent=1,
                    )
                    + '\n'
                )
    sys.exit(0 if all(row['is_right'] for row in rows) else 1)


if __name__ == '__main__':
    main()
