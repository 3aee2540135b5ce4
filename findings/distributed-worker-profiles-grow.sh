#!/usr/bin/env bash
# distributed 2026.8.0: the memory of a worker grows for about a quarter of an hour although its tasks
# leave nothing behind. Each worker samples the call stacks of its threads every 10 ms and keeps one
# tree of stacks a second. How many it keeps is set by `distributed.admin.low-level-log-length`, a number
# of log records (1000 by default), so profiles of the last 1000 seconds stay in memory: 100 to 250 MB
# where stacks are deep. Neither the page on worker memory nor that on the profiler connects the two.
#
# Output seen on 2026-11-28:
#   distributed 2026.8.0
#   low-level-log-length 5: profiles of at most 5 seconds are kept
#   low-level-log-length 7: profiles of at most 7 seconds are kept
#   profiler off: profiles kept 0
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check distributed==2026.8.0 dask==2026.8.0
cat > "$work/profiles.py" <<'PYTHON'
import time

import dask
import distributed
from distributed import Client, LocalCluster


def busy(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))


def kept(settings, seconds):
    with dask.config.set({"distributed.worker.profile.cycle": "200ms", **settings}):
        with LocalCluster(1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster:
            with Client(cluster) as client:
                client.submit(busy, seconds).result()
                [worker] = cluster.workers.values()
                return worker.profile_history.maxlen, len(worker.profile_history)


print("distributed", distributed.__version__)
for length in (5, 7):
    most, n = kept({"distributed.admin.low-level-log-length": length}, 3)
    assert most == length, "the behaviour has changed"
    assert n > 0, "the behaviour has changed"
    print(f"low-level-log-length {length}: profiles of at most {most} seconds are kept")
_, n = kept({"distributed.worker.profile.enabled": False}, 2)
assert n == 0, "the behaviour has changed"
print("profiler off: profiles kept", n)
PYTHON
"$work/venv/bin/python" "$work/profiles.py"
