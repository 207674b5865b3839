"""A segment as a job: reads folders and files, writes folders, on one rank or several."""

import json
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import polars as pl

from dphrl.artifacts.stage import Timing
from dphrl.config.blocks.sampling import EngineConfig, HardwareConfig
from dphrl.config.blocks.training import MethodConfig, TrainConfig
from dphrl.model.logprobs import load_model
from dphrl.ranks.collectives import all_gather, rank, start_process_group
from dphrl.reference.responses import load
from dphrl.rollout.factory import make_engine
from dphrl.scoring.factory import make_scorer
from dphrl.training.canary import Canary
from dphrl.training.probes import ProbePrompt, Probes, probe_prompts
from dphrl.training.rollouts import OnlinePrompt
from dphrl.training.segment import Segment
from dphrl.training.shared_engine import SharedEngine
from dphrl.training.stored import check_reference
from dphrl.training.trackers import open_trackers
from dphrl.training.trainer import Trainer


class Trained(NamedTuple):
    """What a segment reports.

    Attributes:
        metrics: the metrics table.
        probes: the table of the probes' answers.
        timings: seconds and tokens of each part, on rank 0.
        digests: the sha256 of files of the folders "policy" and "state" by name, made while they were written; others,
            such as the tokenizer's, are missing.
    """

    metrics: pl.DataFrame
    probes: pl.DataFrame
    timings: list[Timing]
    digests: dict[str, dict[str, str]]


@dataclass(frozen=True)
class SegmentJob:
    """Inputs, outputs and settings of a segment; paths are text, so that ranks can receive it as JSON.

    Attributes:
        config: the stage's blocks of the configuration: method, train, engine, task, scorer, ranks.
        hardware: the block `hardware`.
        seed: of the training.
        first, last: steps, both included.
        partition, prompts, gold: tables of the training set, already checked.
        presamples: the shards of the base policy's pre-samples, for the probes.
        policy: folder of the policy before the segment.
        base: folder of the base policy, for methods that need it.
        state: folder of the state before the segment; None at the start.
        reference: the reference responses, for methods that rehearse.
        databases, scorer: files of the task's scorer, see `make_scorer`.
        workers: scoring processes of each rank.
        policy_out, state_out: folders of the policy and state after it; must be empty.
        trackers, tracking: names of the trackers that get metrics while it runs, and the folder for their files.
        lines: file that gets a line of JSON with metrics, speed and some rollouts after each step.
        label: of the progress lines.
        training: name of the whole training for the trackers, with that of the run: they may keep several runs.
    """

    config: Mapping[str, Any]
    hardware: Mapping[str, Any]
    seed: int
    first: int
    last: int
    partition: str
    prompts: str
    gold: str
    policy: str
    policy_out: str
    state_out: str
    label: str
    training: str
    presamples: Sequence[str] = ()
    base: str | None = None
    state: str | None = None
    reference: str | None = None
    databases: str | None = None
    scorer: str | None = None
    workers: int = 1
    trackers: Sequence[str] = ()
    tracking: str = "."
    lines: str | None = None

    @property
    def method(self) -> MethodConfig:
        """The method that is trained."""
        return MethodConfig(**self.config["method"])

    @property
    def train(self) -> TrainConfig:
        """The block `train`; schedule and seeds, which no segment depends on, have their defaults."""
        return TrainConfig(**self.config["train"])

    @property
    def machine(self) -> HardwareConfig:
        """The block `hardware`."""
        return HardwareConfig(**self.hardware)

    def to_json(self) -> str:
        """The job as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The job that `to_json` wrote."""
        return cls(**json.loads(text))


def run_job(job: SegmentJob) -> Trained:
    """Run a segment in this process, one of its ranks, and write policy and state after it."""
    started = time.perf_counter()
    start_process_group()
    method, config, hardware = job.method, job.train, job.machine
    prompts, rehearsal = _online_prompts(job), load(Path(job.reference)) if job.reference else None
    with ExitStack() as stack:
        files = {"databases": job.databases, "source": job.scorer}
        scorer = make_scorer(job.config["task"], job.config["scorer"], workers=job.workers, programs=False, **files)
        stack.enter_context(scorer)
        engine = make_engine(Path(job.policy), EngineConfig(**job.config["engine"]), hardware, distributed=True)
        if hardware.tensor_parallel > 1:
            engine = SharedEngine(engine, hardware.tensor_parallel)
        # An engine needs memory for its profiling run, a trainer to divide its model. In this order, with the engine
        # asleep, neither has to fit next to the most that the other needs.
        canary = Canary.of((prompt.tokens for prompt in prompts), config.dtype, engine.max_model_len)
        start = canary.of_engine(engine)
        engine.sleep()
        trainer = Trainer(
            # Adapters are added to the base policy; those merged into a policy could not be trained further.
            load_model(Path(str(job.base) if method.lora else job.policy), config.dtype),
            config,
            hardware,
            method,
            state=Path(job.state) if job.state else None,
            reference_model=load_model(Path(str(job.base)), config.dtype) if method.needs_reference_model else None,
            seed=job.seed,
        )
        if rehearsal is not None and job.first == 1:
            mismatch = float((canary.of_trainer(trainer) - start).abs().mean())
            check_reference(trainer, rehearsal, Path(job.policy), mismatch)
        trackers = job.trackers if rank() == 0 else ()
        lines = Path(job.lines) if job.lines and rank() == 0 else None
        track = open_trackers(trackers, Path(job.tracking), job.training, lines, stack)
        probes = Probes(trainer, engine, _probe_prompts(job), scorer.score, config, job.seed)
        parts = trainer, engine, prompts, rehearsal, scorer.score
        segment = Segment(*parts, config, method, job.seed, track, start, probes)
        segment.seconds["start"] = time.perf_counter() - started
        metrics = segment.run(job.first, job.last, job.label)
        digests = _save(trainer, job)
    timings = [(part, seconds, segment.tokens.get(part)) for part, seconds in segment.seconds.items()]
    return Trained(metrics, probes.table(), timings, digests)


def _online_prompts(job: SegmentJob) -> list[OnlinePrompt]:
    """The prompts that the method rolls out, in key order: D_exp, or all that were not dropped.

    Raises `ValueError` if they are fewer than a step draws.
    """
    partition, prompts, gold = _tables(job)
    rows = (
        partition.filter(pl.col("subset").is_in(["exp"] if job.method.rollout_on == "exp" else ["exp", "pef"]))
        .join(prompts, on="prompt_id")
        .join(gold, on="prompt_id")
        .sort("prompt_id")
        .select("prompt_id", "prompt_token_ids", "ground_truth")
        .collect()
    )
    wanted, drawn_from = job.train.prompts_per_step, "D_exp" if job.method.rollout_on == "exp" else "D_pef and D_exp"
    if rows.height < wanted:
        raise ValueError(
            f"train.prompts_per_step is {wanted}, but {drawn_from}, which {job.training} trains on, has {rows.height} "
            f"questions, and a step draws each at most once: set it to at most {rows.height}, or add questions"
        )
    return [OnlinePrompt(prompt_id, tokens, json.loads(truth)) for prompt_id, tokens, truth in rows.iter_rows()]


def _probe_prompts(job: SegmentJob) -> list[ProbePrompt]:
    """The prompts of the probes; none without `presamples`."""
    if not job.presamples:
        return []
    presamples = pl.scan_parquet([Path(path) for path in job.presamples], glob=False)
    return probe_prompts(*_tables(job), presamples, config=job.train)


def _tables(job: SegmentJob) -> tuple[pl.LazyFrame, pl.LazyFrame, pl.LazyFrame]:
    """Partition, prompts and golds. Lazily: few columns are needed, and the stage has checked the tables."""
    partition, prompts, gold = (
        pl.scan_parquet(Path(path), glob=False) for path in (job.partition, job.prompts, job.gold)
    )
    return partition, prompts, gold


def _save(trainer: Trainer, job: SegmentJob) -> dict[str, dict[str, str]]:
    """Write policy and state, each rank its part; tokenizer and settings are those of the policy before, unchanged.

    Returns:
        `digests` of `Trained`.
    """
    before, policy = Path(job.policy), Path(job.policy_out)
    ours = {"policy": trainer.save_policy(policy), "state": trainer.save_state(Path(job.state_out))}
    written = {"config.json", "generation_config.json"}
    for file in before.iterdir() if rank() == 0 else ():
        ours_or_hidden = file.name in written or ".safetensors" in file.suffixes or file.name.startswith(".")
        if file.is_file() and not ours_or_hidden:
            shutil.copyfile(file, policy / file.name)
    of_ranks = all_gather(ours)
    return {name: {file: digest for part in of_ranks for file, digest in part[name].items()} for name in ours}
