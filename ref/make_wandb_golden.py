"""Golden file of an offline run of Weights & Biases: the same records as tests/unit/record/wandb_test.cpp encodes.

Packages (PyPI): wandb==0.16.6 "protobuf<5" setuptools. Run from the repository root:

    python3 ref/make_wandb_golden.py [FILE.wandb]

Writes tests/golden/record/run.wandb. With FILE.wandb: reads that file with wandb's own reader and prints its records.
"""
import pathlib
import sys

from wandb.proto import wandb_internal_pb2 as pb
from wandb.sdk.internal.datastore import DataStore

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "record" / "run.wandb"


def records():
    header = pb.Record(num=1)
    header.header.version_info.producer = "lockstep"
    header.header.version_info.min_consumer = "0.12.0"
    yield header
    run = pb.Record(num=2)
    for key, value in (("lr", "0.001"), ("model", '"ViT-B-32"'), ("notes", '"' + 40000 * "x" + '"')):
        run.run.config.update.add(key=key, value_json=value)
    run.run.run_id = run.run.display_name = "vit-b32"
    run.run.project = "open-clip"
    run.run.notes = "a test"
    run.run.host = "node1"
    run.run.start_time.seconds = 1795400307
    run.run.start_time.nanos = 500000000
    run.run.resumed = True
    yield run
    number = 2
    for step in range(0, 200):
        values = [("train/loss", repr(1.0 / (step + 1))), ("train/scale", "NaN" if step == 3 else "14.5")]
        summary = pb.Record(num=number + 1)
        for key, value in values:
            summary.summary.update.add(nested_key=[key], value_json=value)
        yield summary
        history = pb.Record(num=number + 2)
        for key, value in [("_step", str(step)), *values]:
            history.history.item.add(nested_key=[key], value_json=value)
        history.history.step.num = step
        yield history
        number += 2
    last = pb.Record(num=number + 1)
    last.exit.exit_code = 75
    last.exit.runtime = 60
    yield last


def main():
    store = DataStore()
    if len(sys.argv) > 1:
        store.open_for_scan(sys.argv[1])
        while (data := store.scan_data()) is not None:
            record = pb.Record()
            record.ParseFromString(data)
            print(record.num, str(record).replace("\n", " ")[:300])
        return
    GOLDEN.unlink(missing_ok=True)
    store.open_for_write(str(GOLDEN))
    for record in records():
        store._write_data(record.SerializeToString())
    store.close()


if __name__ == "__main__":
    main()
