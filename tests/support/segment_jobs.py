"""The job of a segment, with files as earlier stages write them, and a scorer through which a test can do harm."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import polars as pl
import pytest
from tiny_models import write_tiny_policy
from tiny_training import ENGINE, ONLINE, hardware, train_config, write_reference
from transformers import AutoTokenizer

from dphrl.config.blocks.training import MethodConfig
from dphrl.policy.ranks import RankJob, run_on_ranks
from dphrl.store.catalogue import SCHEMAS
from dphrl.store.parquet import write_table
from dphrl.training.job import SegmentJob, Trained

# Through the scorer a test can end a rank in the middle of a step, or make it wait there.
SCORER = """
import os
import signal
import time
from pathlib import Path

from dphrl.scoring.factory import CustomScorer, register
from dphrl.scoring.verdict import Verdict


@register("even")
class EvenScorer(CustomScorer):
    def __init__(self, harm=None, seen=None):
        self.harm, self.seen = harm, seen

    def score(self, responses, ground_truths):
        rank = os.environ["RANK"]
        if self.seen:
            Path(self.seen, rank).touch()
        if self.harm == "wait":
            time.sleep(600)
        if rank == "1" and self.harm == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        odd = [len(text) % 2 == 1 for text in responses]
        return [Verdict("correct" if right else "wrong", right, float(right)) for right in odd]
"""


def first_segment(folder: Path, dtype: str = "float32", **changes: Any) -> SegmentJob:
    """The job of a training's first two steps on two ranks, without folders for its results.

    Args:
        changes: of the policy, as in `tiny_model`.
    """
    base = folder / "base"
    write_tiny_policy(base, **changes)
    write_reference(base, folder, dtype)
    (folder / "scorer.py").write_text(SCORER)
    tokenizer = AutoTokenizer.from_pretrained(base)
    keys = [f"p{i}" for i in range(len(ONLINE))]
    tables = {
        "partition": {
            "prompt_id": [*keys, "stored"],
            "n": 4,
            "c": 2,
            "subset": ["exp"] * len(keys) + ["pef"],
            "reason": "",
            "reference_sample": [None] * len(keys) + [0],
        },
        "prompts": {
            "task": "even",
            "messages": "",
            "prompt_token_ids": [tokenizer(text)["input_ids"] for text in ONLINE],
            "thought_open": False,
            "source": "test",
            "source_index": range(len(keys)),
            "level": None,
        },
        "gold": {"ground_truth": "{}", "verdict": "correct", "kept": True, "reason": None},
    }
    for name, columns in tables.items():
        write_table(pl.DataFrame({"prompt_id": keys, **columns}), name, folder / f"{name}.parquet", {})
    answers = [tokenizer(f"shop {i}")["input_ids"] for i in range(len(ONLINE))]
    drawn = {
        "prompt_id": keys,
        "sample_index": 0,
        "seed": 0,
        "token_ids": answers,
        "sampler_logprobs": [[-1.0] * len(answer) for answer in answers],
        "text": "",
        "finish_reason": "stop",
    }
    write_table(pl.DataFrame(drawn), "rollouts", folder / "presamples.parquet", {})
    probe = {"every": 2, "prompts": 3, "samples": 2}
    return SegmentJob(
        method=MethodConfig(divergence="js"),
        train=train_config(probe=probe, dtype=dtype),
        engine=ENGINE.model_copy(update={"dtype": dtype}),
        task="even",
        scorer={"options": {}},
        thoughts={},
        hardware=hardware(ranks=2),
        seed=1,
        first=1,
        last=2,
        **{name: str(folder / f"{name}.parquet") for name in tables},
        policy=str(base),
        policy_out="",
        state_out="",
        label="test",
        training="grpo-s1",
        needs={},
        presamples=[str(folder / "presamples.parquet")],
        reference=str(folder / "responses.safetensors"),
        scorer_file=str(folder / "scorer.py"),
    )


def into(job: SegmentJob, folder: Path, hardware: Mapping[str, Any] | None = None, **changes: Any) -> SegmentJob:
    """The job with folders for its results, and the block `hardware` and blocks of its config updated."""
    plain = job.model_dump(mode="json")
    changed = {name: {**plain[name], **block} for name, block in {"hardware": hardware or {}, **changes}.items()}
    folders = {"policy_out": str(folder / "policy"), "state_out": str(folder / "state")}
    return SegmentJob(**{**plain, **folders, **changed})


def following(job: SegmentJob) -> SegmentJob:
    """The job of as many steps more, without folders for its results."""
    steps = {"first": job.last + 1, "last": 2 * job.last - job.first + 1}
    folders = {"policy": job.policy_out, "state": job.state_out, "policy_out": "", "state_out": ""}
    return job.model_copy(update={**folders, **steps})


class Segments(RankJob):
    """Several segments, one after the other on the same ranks."""

    after_failure: ClassVar[str] = ""
    jobs: list[SegmentJob]

    def work(self) -> list[dict[str, Any]]:
        """Run them."""
        return [job.work() for job in self.jobs]


def train_together(jobs: list[SegmentJob], folder: Path) -> list[Trained]:
    """Run segments on ranks that start once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))
        together = Segments(hardware=jobs[0].hardware, label="test", jobs=jobs)
        answers = run_on_ranks(together, jobs[0].hardware.ranks, folder)
    for answer in answers:
        answer |= {name: SCHEMAS[name].frame(answer[name]) for name in ("metrics", "probes")}
    return [Trained(**answer) for answer in answers]
