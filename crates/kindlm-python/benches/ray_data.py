"""Measures records per second in Ray Data, and compares the results with those of one process.

    pip install "ray[data]" pyarrow kindlm-python
    python ray_data.py [records]

A run with two workers is repeated while one of them is killed: each record must have its result nevertheless.
"""

import hashlib
import os
import resource
import signal
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import ray

from kindlm import Evaluator

EXPECT = {
    "output": {"contains": ["shipped"], "notContains": ["sorry"], "maxLength": 200},
    "assert": [{"type": "regex", "value": "order [0-9]+"}],
}
BATCH = 10_000


def records(ids):
    """Returns a table of records. Each tenth fails, and each thousandth has no output."""
    numbers = ids.column("id").to_pylist()
    outputs = [
        None if it % 1_000 == 999 else f"Your order {it} has {'shipped' if it % 10 else 'arrived'}." for it in numbers
    ]
    return pa.table({"id": pa.array(numbers, pa.int64()), "agent_output": pa.array(outputs, pa.string())})


def digest(table):
    """Returns a digest of all results, in the order of their ids."""
    rows = table.combine_chunks().sort_by("id").to_pylist()
    total = hashlib.sha256()
    for row in rows:
        total.update(repr(sorted(row.items())).encode())
    return total.hexdigest()


class Worker:
    """Evaluates batches in a process of Ray. With a folder, it writes the id of its process there."""

    def __init__(self, folder=None):
        self.evaluator = Evaluator(EXPECT, threads=1)
        if folder:
            (Path(folder) / str(os.getpid())).touch()

    def __call__(self, batch):
        return self.evaluator.evaluate(records(batch))


class Killed(Worker):
    """Kills its process in the middle of the run, once."""

    def __init__(self, folder, middle):
        super().__init__(folder)
        self.folder, self.middle = Path(folder), middle

    def __call__(self, batch):
        if batch.column("id")[0].as_py() >= self.middle:
            try:
                (self.folder / "killed").touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(batch)


def in_ray(count, workers, worker=Worker, **arguments):
    data = ray.data.range(count, override_num_blocks=max(count // BATCH, 1))
    strategy = ray.data.ActorPoolStrategy(size=workers)
    data = data.map_batches(
        worker,
        batch_size=BATCH,
        batch_format="pyarrow",
        compute=strategy,
        num_cpus=1,
        fn_constructor_kwargs=arguments,
    )
    tables = [ray.get(it) for it in data.to_arrow_refs()]
    return pa.concat_tables(tables)


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    evaluator = Evaluator(EXPECT, threads=1)
    start, cpu, parts = time.perf_counter(), os.times(), []
    for first in range(0, count, BATCH):
        ids = pa.table({"id": pa.array(range(first, min(first + BATCH, count)), pa.int64())})
        parts.append(evaluator.evaluate(records(ids)))
    seconds = time.perf_counter() - start
    used = os.times().user + os.times().system - cpu.user - cpu.system
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    expected = digest(pa.concat_tables(parts))
    print(f"one process: {count / seconds:,.0f} records/s, {used / count * 1e6:.1f} us CPU each, {memory} MiB", flush=True)
    del parts

    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    in_ray(BATCH, 1)
    for workers in (1, 2):
        start = time.perf_counter()
        results = in_ray(count, workers)
        seconds = time.perf_counter() - start
        assert digest(results) == expected, "other results"
        print(f"Ray Data, {workers} worker(s): {count / seconds:,.0f} records/s, equal results", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        results = in_ray(count, 2, Killed, folder=folder, middle=count // 2)
        seconds = time.perf_counter() - start
        assert (Path(folder) / "killed").exists(), "no worker was killed"
        processes = len(list(Path(folder).iterdir())) - 1
        assert results.num_rows == count, f"{results.num_rows} results of {count} records"
        assert digest(results) == expected, "other results"
        rate = count / seconds
        print(f"Ray Data, one of 2 killed, {processes} processes: {rate:,.0f} records/s, equal results", flush=True)


if __name__ == "__main__":
    main()
