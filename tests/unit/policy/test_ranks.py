"""Several ranks: real processes on gloo give the results of one, and end together."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import psutil
import pytest
import torch
from runs import ROOT
from safetensors.torch import load_file
from segment_jobs import first_segment, following, into, train_together
from spread_layers import check_alike
from tiny_models import write_tiny_policy
from tiny_training import process_group
from transformers import AutoModelForCausalLM
from two_ranks import BUCKETS, CHUNK, update

from dphrl.policy.engine import AsleepError, Engine
from dphrl.policy.engines import make_engine
from dphrl.policy.ranks import RankError, run_ranks
from dphrl.store.files import sha256_file
from dphrl.training.job import SegmentJob, Trained, train_segment
from dphrl.training.trainer import Trainer

PROGRAMS = ("spread_engine.py", "two_ranks.py", "moved_state.py", "spread_layers.py")
SPREAD, UPDATE, MOVED, LAYERS = (str(ROOT / "tests" / "support" / name) for name in PROGRAMS)
STAGES = (0, 1, 2, 3)


@pytest.fixture(scope="module")
def updates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One update on one rank, and on two at every ZeRO stage."""
    folder = tmp_path_factory.mktemp("updates")
    with process_group(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("dphrl.policy.logprobs._LOGITS_PER_CHUNK", CHUNK)
        update(0, "even", folder)
    run_ranks(2, [UPDATE, str(folder), "600", *map(str, STAGES)])
    return folder


def _read(folder: Path, name: str) -> dict[str, Any]:
    return json.loads((folder / f"{name}.json").read_text())


@pytest.mark.parametrize("stage", STAGES)
def test_an_update_does_not_depend_on_ranks_or_zero_stage(updates: Path, stage: int) -> None:
    """One of two ranks has the long rows and all stored ones."""
    name, alone = f"2-{stage}-uneven", "1-0-even"
    assert _read(updates, name) == pytest.approx(_read(updates, alone), rel=1e-5)
    expected = load_file(updates / f"{alone}.gradients")
    found = load_file(updates / f"{name}.gradients")
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    distance = torch.cat([(found[name] - expected[name]).flatten() for name in expected]).norm()
    assert distance <= 1e-5 * torch.cat([part.flatten() for part in expected.values()]).norm()
    # Adam makes a full step of a gradient that is mere rounding: single weights may differ by as much.
    torch.testing.assert_close(
        load_file(updates / f"{name}.weights"), load_file(updates / f"{alone}.weights"), rtol=0, atol=2e-6
    )


@pytest.mark.parametrize("stage", STAGES[1:])
@pytest.mark.parametrize("bucket", BUCKETS)
def test_bfloat16_gradients_are_summed_over_ranks_in_float32(updates: Path, stage: int, bucket: int) -> None:
    sums = load_file(updates / f"{stage}-{bucket}.sums")
    assert (sums["reduced"] - sums["exact"]).norm() <= 1e-7 * sums["exact"].norm()


KINDS = ["float32-all", "bfloat16-all", "bfloat16-lora"]


@pytest.mark.full
@pytest.mark.parametrize("ranks", [2, 4])
def test_layers_that_are_divided_are_trained_like_whole_ones(ranks: int, tmp_path: Path) -> None:
    """ZeRO-3 with checkpointing and sharing, against ZeRO-0 with neither."""
    whole, divided = ([f"{how}-{kind}" for kind in KINDS] for how in ("0-plain-off", "3-checkpointing-on"))
    run_ranks(ranks, [LAYERS, str(tmp_path), "1500", *whole, *divided])
    for setting, expected in zip(divided, whole, strict=True):
        check_alike(tmp_path, f"{ranks}-{setting}", f"{ranks}-{expected}")


@pytest.mark.full
def test_an_engine_that_is_spread_over_two_ranks_draws_what_one_rank_draws(tmp_path: Path) -> None:
    """The ranks ask for different prompts and unequally often; a push comes in between."""
    policy = tmp_path / "policy"
    write_tiny_policy(policy)
    # As vLLM names the memory itself: of another training on this machine.
    other = Path("/dev/shm/-tp:0-[0-1]-cpushm_0")
    other.touch()
    shared = {*other.parent.iterdir()}
    try:
        for ranks in (1, 2):
            run_ranks(ranks, [SPREAD, str(policy), str(tmp_path), "300"])
        assert {*other.parent.iterdir()} == shared
    finally:
        other.unlink()
    alone, *spread = (_read(tmp_path, name) for name in ("1-0", "2-0", "2-1"))
    assert [len(results) for results in spread] == [4, 4]
    for results in spread:
        for part, found in results.items():
            expected = alone[part]
            if part.startswith("text"):
                assert found == pytest.approx(expected, abs=1e-5)
                continue
            assert [c["token_ids"] for c in found] == [c["token_ids"] for c in expected]
            for ours, theirs in zip(found, expected, strict=True):
                assert ours["logprobs"] == pytest.approx(theirs["logprobs"], abs=1e-5)


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> SegmentJob:
    """The job of a training's first two steps on two ranks, without folders for its results."""
    return first_segment(tmp_path_factory.mktemp("start"))


def _cut(start: SegmentJob, folder: Path, **changes: Any) -> list[SegmentJob]:
    """Two steps, two more, and all four in one segment."""
    first = into(start, folder / "first", **changes)
    whole = into(start.model_copy(update={"last": 4}), folder / "whole", **changes)
    return [first, into(following(first), folder / "second"), whole]


@pytest.fixture(scope="module")
def undisturbed(start: SegmentJob, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[SegmentJob], list[Trained]]:
    """The segments of `_cut` and their results."""
    folder = tmp_path_factory.mktemp("undisturbed")
    jobs = _cut(start, folder)
    return jobs, train_together(jobs, folder)


def _files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, hidden ones too."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_two_ranks_give_the_same_bits_in_one_segment_and_in_two(
    undisturbed: tuple[list[SegmentJob], list[Trained]],
) -> None:
    _check_cut(*undisturbed)


@pytest.mark.full
@pytest.mark.parametrize(("stage", "parts"), [(3, 1), (1, 2)])
def test_with_vllm_two_ranks_give_the_same_bits_in_one_segment_and_in_two(
    start: SegmentJob, tmp_path: Path, stage: int, parts: int
) -> None:
    hardware = {"zero_stage": stage, "tensor_parallel": parts}
    jobs = _cut(start, tmp_path, hardware=hardware, engine={"name": "vllm"})
    _check_cut(jobs, [train_segment(job) for job in jobs])


def _check_cut(jobs: list[SegmentJob], trained: list[Trained]) -> None:
    *parts, (metrics, probes, timings, digests) = trained
    assert pl.concat(part.metrics for part in parts).equals(metrics)
    assert pl.concat(part.probes for part in parts).equals(probes)
    assert probes["step"].unique().sort().to_list() == [0, 2, 4]
    second, whole = (Path(job.policy_out).parent for job in jobs[1:])
    files = _files(whole)
    assert files == _files(second)
    assert {f"state/optimizer-00{number}.safetensors" for number in (0, 1)} <= files.keys()
    for name, found in digests.items():
        assert found == {file.name: sha256_file(file) for file in (whole / name).glob("*.safetensors")}
    assert {part for part, _, _ in timings} >= {"start", "generate", "score", "train", "push"}
    policy, loading = AutoModelForCausalLM.from_pretrained(whole / "policy", output_loading_info=True)
    assert not loading["missing_keys"]
    assert not loading["unexpected_keys"]
    base = AutoModelForCausalLM.from_pretrained(jobs[0].policy)
    assert all(not torch.equal(a, b) for a, b in zip(policy.parameters(), base.parameters(), strict=True))


def test_the_engine_sleeps_while_the_trainer_is_made(
    start: SegmentJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In bfloat16, where the canary's tolerance needs what the engine computed before it fell asleep."""
    engines: list[Engine] = []

    def make(*args: Any, **options: Any) -> Engine:
        engines.append(make_engine(*args, **options))
        return engines[0]

    class Awaited(Trainer):
        def __init__(self, *args: Any, **options: Any) -> None:
            with pytest.raises(AsleepError):
                engines[0].text_logprobs([3, 4])
            super().__init__(*args, **options)

    monkeypatch.setattr("dphrl.training.job.make_engine", make)
    monkeypatch.setattr("dphrl.training.job.Trainer", Awaited)
    with process_group():
        trained = train_segment(into(start, tmp_path, {"ranks": 1}, train={"dtype": "bfloat16"}))
    gaps = trained.metrics.filter(metric="canary_gap")["value"]
    assert len(gaps) == 2
    assert 1e-4 < gaps.max() < 0.3
    assert trained.digests["state"].keys() == {"optimizer-000.safetensors"}


def test_probes_do_not_depend_on_the_number_of_ranks(
    start: SegmentJob, undisturbed: tuple[list[SegmentJob], list[Trained]], tmp_path: Path
) -> None:
    """Before the first update, after which weights differ in their last bits; 3 prompts are no multiple of 2 ranks."""
    with process_group():
        alone = train_segment(into(start, tmp_path, {"ranks": 1})).probes.filter(step=0)
    assert alone.height == 6
    assert alone.equals(undisturbed[1][0].probes.filter(step=0))


@pytest.mark.full
def test_a_state_goes_to_another_number_of_ranks_and_back_to_the_bit(tmp_path: Path) -> None:
    """Two ranks make it at stage 1, three take it through all stages, and two write it again."""
    for ranks, state, stages in ((2, "s", "1"), (3, "s-2.1", "3021"), (2, "s-2.1-3.3-3.0-3.2-3.1", "1")):
        run_ranks(ranks, [MOVED, str(tmp_path), state, *stages])
    for dtype in ("float32", "bfloat16"):
        assert len([*(tmp_path / dtype / "s-2.1-3.3").iterdir()]) == 3
        there, back = (_files(tmp_path / dtype / name) for name in ("s-2.1", "s-2.1-3.3-3.0-3.2-3.1-2.1"))
        assert len(there) == 2
        assert there == back


def test_a_rank_that_is_killed_ends_the_segment_at_once_and_leaves_no_file(start: SegmentJob, tmp_path: Path) -> None:
    """That a rerun gives the same bytes: tests/workflow/test_chaos.py."""
    seen = tmp_path / "seen"
    seen.mkdir()
    others = {*psutil.Process().children(recursive=True)}
    with pytest.raises(RankError, match=r"test: .*rank 1 was killed by SIGKILL.* run snakemake again"):
        train_segment(into(start, tmp_path / "out", scorer={"options": {"harm": "kill", "seen": str(seen)}}))
    assert time.time() - (seen / "1").stat().st_mtime < 5
    assert {*psutil.Process().children(recursive=True)} <= others
    assert not _files(tmp_path / "out")


# In a single write: the ranks share the stream, and Python may write a line in pieces.
SAY_RANK = "import os; os.write(1, f\"rank {os.environ['RANK']}\\n\".encode())"
# Linux lets no process fork that has a mapping larger than the memory, as adjacent reservations may be.
LARGE = """
import mmap
import sys
import psutil
from dphrl.policy.ranks import run_ranks
much = psutil.virtual_memory().total * 6 // 10
held = [mmap.mmap(-1, much, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) for _ in range(2)]
run_ranks(2, ["-c", sys.argv[1]])
"""


def test_ranks_start_from_a_process_too_large_to_fork() -> None:
    done = subprocess.run([sys.executable, "-c", LARGE, SAY_RANK], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # Progress is where ranks print to.
    assert {"rank 0", "rank 1"} <= {*done.stderr.splitlines()}


STAGE = """
import sys
from dphrl.training.job import SegmentJob, train_segment
train_segment(SegmentJob.model_validate_json(sys.argv[1]))
"""


@pytest.mark.parametrize("moment", ["starting", pytest.param("in a step", marks=pytest.mark.full)])
def test_no_rank_outlives_the_process_that_asked_for_it(start: SegmentJob, tmp_path: Path, moment: str) -> None:
    seen = tmp_path / "seen"
    seen.mkdir()
    job = into(start, tmp_path / "out", scorer={"options": {"harm": "wait", "seen": str(seen)}})
    stage = psutil.Popen([sys.executable, "-c", STAGE, job.model_dump_json()])
    try:
        _wait_until(lambda: len(stage.children()) == 2)
        if moment == "in a step":
            _wait_until(lambda: len([*seen.iterdir()]) == 2)
        processes = stage.children(recursive=True)
    finally:
        stage.kill()
    stage.wait()
    _wait_until(lambda: all(map(_ended, processes)), seconds=2)


def _ended(process: psutil.Process) -> bool:
    """Whether a process has ended; a zombie only waits for its new parent."""
    with suppress(psutil.NoSuchProcess):
        return process.status() == psutil.STATUS_ZOMBIE
    return True


def _wait_until(condition: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
