#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# A runner in Python: the contract is in runner/OWN_RUNNER.md. Replace train_step().
import json, os, sys, time

if "--capabilities" in sys.argv:
    sys.exit(print(json.dumps({"runner": "mine", "version": "1.0", "dtype": ["fp32"]})))
flags = dict(zip(sys.argv[1::2], sys.argv[2::2]))
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
tokens = int(flags["--dp"]) * int(flags["--micro-batch"]) * int(flags["--grad-accum"]) * int(flags["--seq-len"])

def record(type, **keys):
    line = json.dumps({"type": type, "run_id": flags["--run-id"], "t": time.time(), **keys})
    with open(flags["--records"], "a") as out:
        print(line, file=out, flush=True)
        os.fsync(out.fileno())  # a result counts when it is on the disk

def train_step():
    time.sleep(0.01 * int(flags["--micro-batch"]))

if rank == 0: record("start", runner="mine", version="1.0", host=os.uname().nodename)
if rank == 0: record("phase", phase="train")
times = []
for step in range(int(flags["--warmup"]) + int(flags["--steps"])):
    begin = time.perf_counter()
    train_step()
    times.append(time.perf_counter() - begin)
    if rank == 0: record("train_step", step=step, step_ms=times[-1] * 1e3)
median = sorted(times[int(flags["--warmup"]):])[int(flags["--steps"]) // 2]
if rank == 0: record("result", tokens_per_s_per_gpu=tokens / median / world, train_step_ms=median * 1e3, sleepiness=7)
