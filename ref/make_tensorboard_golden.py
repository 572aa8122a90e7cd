"""Writes tests/golden/record/tensorboard.json with PyPI's tensorboard 2.20.0: records of an event file as that package
serialises and frames them. Given a folder instead, checks that TensorBoard can read its event files, and prints each
scalar's count, first and last value.

  pip install --target DIR tensorboard==2.20.0 setuptools
  PYTHONPATH=DIR python3 ref/make_tensorboard_golden.py tests/golden/record/tensorboard.json
  PYTHONPATH=DIR python3 ref/make_tensorboard_golden.py logs/NAME/tensorboard
"""
import io
import json
import os
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter


def framed(event):
    class Keep(io.BytesIO):
        def close(self):
            pass

    out = Keep()
    writer = RecordWriter(out)
    writer.write(event.SerializeToString())
    return out.getvalue().hex()


def write_golden(path):
    cases = [
        (0.0, 0, [("train/loss", 0.25)]),
        (12.5, 300, [("train/loss", 4.0), ("train/lr", -3.0)]),
        (1700000000.125, 1 << 40, [("val/clip_val_loss", 1e-30), ("x" * 200, 3.5e38 / 2)]),
        (1.0, 127, [("a", float("inf"))]),
    ]
    events = []
    for wall_time, step, scalars in cases:
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars]
        event = Event(wall_time=wall_time, step=step, summary=Summary(value=values))
        texts = [[tag, str(value)] for tag, value in scalars]
        events.append(dict(wall_time_s=wall_time, step=step, scalars=texts, record=framed(event)))
    version = framed(Event(wall_time=1700000000.5, file_version="brain.Event:2"))
    with open(path, "w") as out:
        json.dump(dict(version_wall_time_s=1700000000.5, version=version, events=events), out, indent=1)
        out.write("\n")


def check_folder(path):
    accumulator = EventAccumulator(path, size_guidance={"scalars": 0, "tensors": 0})
    accumulator.Reload()
    tags = accumulator.Tags()["scalars"]
    assert tags, f"no scalars in {path}"
    for tag in tags:
        events = accumulator.Scalars(tag)
        first, last = events[0], events[-1]
        print(f"{tag}: count={len(events)} first=({first.step}, {first.value:g}) last=({last.step}, {last.value:g})")


if __name__ == "__main__":
    check_folder(sys.argv[1]) if os.path.isdir(sys.argv[1]) else write_golden(sys.argv[1])
