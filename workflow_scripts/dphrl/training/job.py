"""A segment as a job: reads folders and files, writes folders, on one rank or several."""

import json
import shutil
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import astuple
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import polars as pl
import torch
import torch.distributed as dist

from dphrl.config.blocks.sampling import EngineConfig
from dphrl.config.blocks.training import MethodConfig, TrainConfig
from dphrl.data.partition_counts import require_questions
from dphrl.policy.collectives import all_gather, control_group, rank, start_process_group
from dphrl.policy.engine import Engine
from dphrl.policy.engines import make_engine
from dphrl.policy.logprobs import load_model
from dphrl.policy.ranks import ONE_NODE, Nodes, RankJob, cores_of_rank, run_on_ranks, threads_of_rank
from dphrl.policy.requests import Completion, Request
from dphrl.scoring.factory import make_scorer
from dphrl.scoring.verdict import score_answers
from dphrl.store.catalogue import SCHEMAS
from dphrl.store.files import replacing_folder
from dphrl.store.manifest import repeat_folder
from dphrl.store.stage import Timing
from dphrl.training.canary import Canary, check_reference
from dphrl.training.metrics import open_trackers
from dphrl.training.probes import ProbePrompt, Probes, probe_prompts
from dphrl.training.rollouts import OnlinePrompt
from dphrl.training.schedule import ends
from dphrl.training.segment import Segment
from dphrl.training.stored_responses import load
from dphrl.training.trainer import Trainer


class Trained(NamedTuple):
    """Results of a segment.

    Attributes:
        metrics: the metrics table.
        probes: the table of the probes' answers.
        timings: seconds of each part on rank 0, and its tokens on all ranks.
        digests: the sha256 of files of the folders "policy" and "state" by name, computed while they were written;
            other files, such as the tokenizer's, are missing.
    """

    metrics: pl.DataFrame
    probes: pl.DataFrame
    timings: list[Timing]
    digests: dict[str, dict[str, str]]


class SegmentJob(RankJob):
    """Inputs, outputs and settings of a segment.

    Attributes:
        method: the entry of `methods`.
        train: the block `train`; schedule and seeds, which no segment depends on, have their defaults.
        engine: the block `engine`.
        task, scorer, thoughts: the blocks `task`, `scorer` and `thoughts` of the training set.
        seed: of the training.
        first, last: steps, both included.
        metrics: tables of the segments before, where they can end the training (`train.stop`).
        partition, prompts, gold: tables of the training set, already checked.
        presamples: the shards of the base policy's pre-samples, for the probes.
        policy: folder of the policy before the segment.
        base: folder of the base policy, for methods that need it.
        state: folder of the state before the segment; None at the start.
        reference: the reference responses, for methods that rehearse.
        databases, scorer_file: files of the task's scorer, see `make_scorer`.
        workers: scoring processes of each rank.
        policy_out, state_out: folders of the policy and state after it.
        trackers, tracking: names of the trackers that get metrics while it runs, and the folder for their files.
        lines: file that gets a line of JSON with metrics, speed and some rollouts after each step.
        needs: of each training that must be able to start, the arguments of `require_questions`.
        training: name of the run and the training for the trackers, which may keep several runs.
    """

    after_failure: ClassVar[str] = (
        "Nothing of this segment was kept: run snakemake again, and it starts from the last state."
    )

    method: MethodConfig
    train: TrainConfig
    engine: EngineConfig
    task: str
    scorer: dict[str, Any]
    thoughts: dict[str, str]
    seed: int
    first: int
    last: int
    partition: str
    prompts: str
    gold: str
    policy: str
    policy_out: str
    state_out: str
    training: str
    needs: dict[str, dict[str, Any]]
    metrics: Sequence[str] = ()
    presamples: Sequence[str] = ()
    base: str | None = None
    state: str | None = None
    reference: str | None = None
    databases: str | None = None
    scorer_file: str | None = None
    workers: int = 1
    trackers: Sequence[str] = ()
    tracking: str = "."
    lines: str | None = None

    def work(self) -> dict[str, Any]:
        """Run the segment on this rank, and write policy and state after it.

        Returns:
            The fields of `Trained`, with the rows of its tables.
        """
        started = time.perf_counter()
        start_process_group()
        method, config, hardware = self.method, self.train, self.hardware
        prompts, rehearsal = _online_prompts(self), load(Path(self.reference)) if self.reference else None
        with ExitStack() as stack:
            files = {"databases": self.databases, "source": self.scorer_file}
            programs = "programs" in method.advantage_needs
            scorer = make_scorer(self.task, self.scorer, workers=self.workers, programs=programs, **files)
            stack.enter_context(scorer)
            score = partial(score_answers, scorer, self.thoughts)
            engine = make_engine(Path(self.policy), self.engine, hardware, distributed=True)
            if hardware.tensor_parallel > 1:
                engine = SharedEngine(engine, hardware.tensor_parallel)
            # An engine needs memory for its profiling run, a trainer to divide its model. In this order, with the
            # engine asleep, neither must fit next to the peak of the other.
            canary = Canary.of((prompt.tokens for prompt in prompts), config.dtype, engine.max_model_len)
            start = canary.of_engine(engine)
            engine.sleep()
            base = Path(str(self.base))
            trainer = Trainer(
                # Adapters are added to the base policy; those merged into a policy could not be trained further.
                load_model(base if method.lora else Path(self.policy), config.dtype),
                config,
                hardware,
                method,
                state=Path(self.state) if self.state else None,
                reference_model=load_model(base, config.dtype) if method.needs_reference_model else None,
                seed=self.seed,
            )
            if rehearsal is not None and self.first == 1:
                mismatch = float((canary.of_trainer(trainer) - start).abs().mean())
                check_reference(trainer, rehearsal, Path(self.policy), mismatch)
            trackers = self.trackers if rank() == 0 else ()
            lines = Path(self.lines) if self.lines and rank() == 0 else None
            track = open_trackers(trackers, Path(self.tracking), self.training, lines, stack)
            probed = list[ProbePrompt]()
            if self.presamples:
                presamples = pl.scan_parquet([Path(path) for path in self.presamples], glob=False)
                probed = probe_prompts(*_tables(self), presamples, config=config)
            probes = Probes(trainer, engine, probed, score, config, self.seed)
            parts = trainer, engine, prompts, rehearsal, score
            segment = Segment(*parts, config, method, self.seed, track, start, probes, _metrics(self))
            segment.seconds["start"] = time.perf_counter() - started
            metrics = segment.run(self.first, self.last, self.label)
            digests = _save(trainer, self)
        timings = [(part, seconds, segment.tokens.get(part)) for part, seconds in segment.seconds.items()]
        return {"metrics": metrics.rows(), "probes": probes.table().rows(), "timings": timings, "digests": digests}


def train_segment(job: SegmentJob, nodes: Nodes = ONE_NODE) -> Trained:
    """Run a segment on `hardware.ranks` ranks, spread over the nodes; a single one runs in this process.

    Policy and state are put in place when all ranks are done. Of a training that has ended (`train.stop`) they are
    those before the segment.

    Raises:
        RankError: a rank failed or was killed; nothing was put in place, so the segment can be run again.
        NothingToTrainError: a method in `needs` has too few questions to roll out or to rehearse.
        ValueError: the ranks cannot be spread evenly over the nodes.
    """
    if ends(_metrics(job), job.train.stop.coverage_below):
        again = {"policy": (job.policy, job.policy_out), "state": (str(job.state), job.state_out)}
        digests = {name: repeat_folder(*map(Path, folders)) for name, folders in again.items()}
        return Trained(SCHEMAS["metrics"].frame(), SCHEMAS["probes"].frame(), [], digests)
    for name, needs in job.needs.items():
        require_questions(pl.scan_parquet(job.partition, glob=False), name, **needs)
    ranks, outputs = job.hardware.ranks, (replacing_folder(Path(job.policy_out)), replacing_folder(Path(job.state_out)))
    with outputs[0] as policy, outputs[1] as state:
        workers = min(job.workers, cores_of_rank(ranks, nodes.number))
        job = job.model_copy(update={"policy_out": str(policy), "state_out": str(state), "workers": workers})
        if ranks == nodes.number == 1:
            torch.set_num_threads(threads_of_rank(1))
            answer = job.work()
        else:
            # Temporary files are next to the job's folders, where ranks on other machines see them too.
            answer = run_on_ranks(job, ranks, state.parent, nodes)
    timings = [tuple(timing) for timing in answer["timings"]]
    metrics, probes = (SCHEMAS[name].frame(answer[name]) for name in ("metrics", "probes"))
    return Trained(metrics, probes, timings, answer["digests"])


def _metrics(job: SegmentJob) -> list[tuple[int, str, float]]:
    """The rows of the metrics of the segments before."""
    return pl.concat([SCHEMAS["metrics"].frame(), *(pl.read_parquet(path, glob=False) for path in job.metrics)]).rows()


def _online_prompts(job: SegmentJob) -> list[OnlinePrompt]:
    """The prompts that the method rolls out, in key order: D_exp, or all that were not dropped."""
    partition, prompts, gold = _tables(job)
    rows = (
        partition.filter(pl.col("subset").is_in(["exp"] if job.method.rollout_on == "exp" else ["exp", "pef"]))
        .join(prompts, on="prompt_id")
        .join(gold, on="prompt_id")
        .sort("prompt_id")
        .select("prompt_id", "prompt_token_ids", "thought_open", "ground_truth", "c", "n")
        .collect()
    )
    return [
        OnlinePrompt(key, tokens, opened, json.loads(truth), right, n)
        for key, tokens, opened, truth, right, n in rows.iter_rows()
    ]


def _tables(job: SegmentJob) -> tuple[pl.LazyFrame, pl.LazyFrame, pl.LazyFrame]:
    """Partition, prompts and golds. Lazily: few columns are needed, and the stage has checked the tables."""
    partition, prompts, gold = (
        pl.scan_parquet(Path(path), glob=False) for path in (job.partition, job.prompts, job.gold)
    )
    return partition, prompts, gold


def _save(trainer: Trainer, job: SegmentJob) -> dict[str, dict[str, str]]:
    """Write policy and state, each rank its part; tokenizer and settings are copied from the policy before.

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


class SharedEngine:
    """This rank's part of an engine, with the requests of all ranks that share it (see `Engine`).

    Ranks with consecutive numbers share an engine. They may call `generate` unequally often and keep generating for the
    others until all ranks sleep; they make all other calls at the same time and with the same arguments. `wake` takes
    whole tensors; `digests` are of this rank's part, so a split tensor has another shape than when pushed.

    Args:
        engine: this rank's part, made with `tensor_parallel` above 1.
        size: ranks per engine; divides the number of ranks.
    """

    def __init__(self, engine: Engine, size: int) -> None:
        self._engine = engine
        self._group = control_group(size)
        self.max_model_len, self.digests_suffice = engine.max_model_len, engine.digests_suffice
        self.text_logprobs, self.digests = engine.text_logprobs, engine.digests
        self.wake = engine.wake

    def generate(self, requests: Sequence[Request], label: str | None = None) -> list[Completion]:
        """One completion per request of this rank, in order; the requests of other ranks run with them."""
        return self._together(requests, label) or []

    def sleep(self) -> None:
        """Sleep together: until all ranks call this, this one keeps generating for the others."""
        while self._together(None) is not None:
            pass
        self._engine.sleep()

    def _together(self, requests: Sequence[Request] | None, label: str | None = None) -> list[Completion] | None:
        """Completions of this rank's requests; `None` means this rank is done; returns `None` once all are."""
        requested = all_gather(None if requests is None else [astuple(request) for request in requests], self._group)
        if all(part is None for part in requested):
            return None
        # The same order on all ranks: each runs its own scheduler, and these must agree on every step.
        completions = self._engine.generate([Request(*row) for part in requested for row in part or []], label)
        start = sum(len(part or []) for part in requested[: dist.get_rank(self._group)])
        return completions[start : start + len(requests or [])]
