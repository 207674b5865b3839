"""Signals in the middle of each kind of work, in the foreground of a terminal and in the background of a script."""

import json
import os
import random
import re
import signal
import time
from pathlib import Path

import psutil
import pytest
from runs import Workflow, remove

pytestmark = [pytest.mark.workflow, pytest.mark.full]

# A manifest or table, and all that its job writes.
WORK = {
    "sampling": ("rollouts/base/in_domain.evaluate/0.parquet",),
    "reference": ("draws/main/reference/index.parquet", "draws/main/reference/responses.safetensors"),
    "training on 2 ranks": ("policies/long-s1/step2.json", "policies/long-s1/step2", "states/long-s1"),
    "SQL scoring": ("verdicts/slow/in_domain.evaluate/0.parquet",),
    "supervised start": ("policies/base.json", "policies/base"),
}
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Half a second of SQLite.
SLOW = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 1000000) SELECT max(n) FROM t"


@pytest.fixture(scope="session")
def undisturbed() -> dict[str, tuple[float, dict[str, str]]]:
    """Seconds of the job and digests by kind of work, from the first test of each."""
    return {}


@pytest.fixture
def run(finished: Workflow) -> Workflow:
    """The finished run, with a method on two ranks and recorded answers that take SQLite seconds."""
    rows = [
        {"source_index": row, "sample_index": sample, "response": SLOW} for row in range(16) for sample in range(-1, 4)
    ]
    (finished.folder / "slow.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    recorded = dict.fromkeys(("in_domain", "maths"), "slow.jsonl")
    changes = {"methods": {"long": {"rollout_on": "all"}}, "hardware": {"ranks": 2}}
    return finished.overlaid(replay={"slow": recorded}, **changes)


def digests(run: Workflow, outputs: tuple[str, ...]) -> dict[str, str]:
    """Digests of the files that a job wrote."""
    return {name: digest for name, digest in run.digests().items() if name.startswith(outputs)}


@pytest.mark.parametrize("background", [False, True], ids=["foreground", "background"])
@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("work", WORK)
def test_a_signal_ends_the_work_and_the_next_run_has_the_same_bytes(
    run: Workflow,
    undisturbed: dict[str, tuple[float, dict[str, str]]],
    work: str,
    number: signal.Signals,
    background: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    outputs = WORK[work]
    target = f"results/tiny/{outputs[0]}"
    places = [run.results / name for name in outputs]
    if work not in undisturbed:
        # The finished run has another configuration, whose hardware is in the footers.
        for place in filter(Path.exists, places):
            remove(place)
        done = re.search(r"done in ([\d.]+) (s|min)", run.run(target))
        assert done
        undisturbed[work] = float(done[1]) * {"s": 1, "min": 60}[done[2]], digests(run, outputs)
    job_seconds, bytes_before = undisturbed[work]
    for place in filter(Path.exists, places):
        remove(place)

    process = run.start(target, background=background, own_session=True)
    run.wait_for("run tiny: ", process)
    # Imports, then work: each test ends the job somewhere else.
    time.sleep(random.Random(f"{work} {number} {background}").uniform(0.1, 0.5) * job_seconds)
    jobs = psutil.Process(process.pid).children(recursive=True)
    assert jobs, run.output()
    sent = time.monotonic()
    # A terminal sends Ctrl-C and its end to all processes of the foreground.
    if background or number == signal.SIGTERM:
        process.send_signal(number)
    else:
        os.killpg(process.pid, number)
    assert process.wait(timeout=30) == 128 + number, run.output()
    psutil.wait_procs(jobs, timeout=30)
    seconds = time.monotonic() - sent
    assert not [job for job in jobs if job.is_running()]
    with capsys.disabled():
        print(f"\n{work}, {number.name}, {'background' if background else 'foreground'}: {seconds:.1f} s")
    assert seconds < 5
    assert not places[0].exists()
    run.run(target)
    assert digests(run, outputs) == bytes_before
