"""`dphrl look`: a few answers of the base model, drawn and judged as a run would, to see early that it cannot work."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from dphrl.config import slices
from dphrl.config.blocks.sampling import PlanConfig
from dphrl.config.config import Config
from dphrl.config.errors import ConfigError
from dphrl.config.load import read_config
from dphrl.config.places import check_files
from dphrl.data.gold import gold_of
from dphrl.data.prepare import prepare
from dphrl.data.records import read_source
from dphrl.data.tokens import encoder
from dphrl.hub import data_file, model_name, snapshot
from dphrl.machine.progress import counted
from dphrl.policy.check_model import check_base
from dphrl.policy.limited import run_limited
from dphrl.policy.logprobs import device_of_job, use_free_cores
from dphrl.policy.requests import SamplingPlan, rollout_frame
from dphrl.policy.transformers_engine import TransformersEngine
from dphrl.scoring.factory import make_scorer
from dphrl.scoring.verdict import STILL_THINKING
from dphrl.scoring.verdict_tables import audit_gold, score_rollouts
from dphrl.store.layout import Layout
from dphrl.text import visible

_QUESTIONS: Final = 16
_SAMPLES: Final = 8
# Seconds for the answers after the first of each question: a slow machine draws fewer.
_SECONDS: Final = 90.0
# Tokens of the longest answer that is waited for.
_PATIENCE: Final = {"cpu": 512, "cuda": 2048}
# Rows from which the questions are drawn, spread over the whole file.
_LOOKED_AT: Final = 2000
# Values of `scoring.<task>.answer`; a custom scorer has none.
_RULES: Final = {"math": ("boxed", "final"), "sql": ("fenced", "bare")}
# Another rule must find this share more of right answers; a fault of fewer answers is not named.
_MARGIN: Final = 0.05
# A limit is so many times the longest length, since answers may grow in training, and a multiple of 64 tokens.
_ROOM, _MULTIPLE = 1.5, 64
# Verdicts on answers that a limit of the scorer stopped.
_LIMITED: Final = ("timeout", "too_large", "out_of_memory")
# Characters of an example.
_SHOWN: Final = 160


@dataclass(frozen=True)
class Look:
    """Answers to a few training questions, and the verdicts on them.

    Attributes:
        config: of the run.
        answers: a table of the schema `rollouts`.
        verdicts: a table of the schema `verdicts` for each value of `scoring.<task>.answer`; for a custom scorer "".
        excluded: the reason of each gold that the run would exclude.
        limit: tokens of the longest answer that was waited for.
        seconds: that loading the model and drawing took.
    """

    config: Config
    answers: pl.DataFrame
    verdicts: Mapping[str, pl.DataFrame]
    excluded: Sequence[str]
    limit: int
    seconds: float

    @property
    def configured(self) -> str:
        """The rule for the place of an answer by the configuration."""
        return str(slices.scoring(self.config, str(self.config.train_dataset))["scorer"].get("answer", ""))

    @property
    def best(self) -> str:
        """The rule with the most right answers, or where none is right with the most answers."""
        measure = _right if any(map(_right, self.verdicts.values())) else _answered
        gain = {rule: measure(judged) - _MARGIN * (rule != self.configured) for rule, judged in self.verdicts.items()}
        return max(gain, key=lambda rule: gain[rule])

    @property
    def response_tokens(self) -> int | None:
        """A limit of responses that leaves room; None where so many answers were cut off that lengths say little."""
        ended = self.answers.filter(finish_reason="stop")["token_ids"].list.len()
        if ended.is_empty() or self.answers.height - len(ended) > _MARGIN * self.answers.height:
            return None
        return _MULTIPLE * math.ceil(_ROOM * max(ended) / _MULTIPLE)

    def can_train(self, rule: str) -> bool:
        """Whether most answers are found by this rule, and one is right: else a run stops at the partition."""
        return _answered(self.verdicts[rule]) >= 0.5 and _right(self.verdicts[rule]) > 0

    def report(self, rule: str) -> str:
        """Lines for the user: lengths, answers by each rule, the division of the questions and the faults by `rule`."""
        lengths = self.answers["token_ids"].list.len().to_list()
        cut = self.answers.select((pl.col("finish_reason") == "length").mean()).item()
        questions = counted(self.answers["prompt_id"].n_unique(), "question")
        lines = [
            f"{self.answers.height} answers to {questions}, drawn in {self.seconds:,.0f} s:"
            f" {sum(lengths) / len(lengths):,.0f} tokens on average, {max(lengths):,} at most,"
            f" {cut:.0%} cut off at {self.limit:,}"
        ]
        for tried, judged in self.verdicts.items():
            shares = f"finds an answer in {_answered(judged):.0%}, {_right(judged):.0%} are right"
            lines.append(f"  {self._key(tried)} {shares}")
        # What the partition would be, and what the run would lack.
        by_question = self.verdicts[rule].group_by("prompt_id").agg(pl.col("correct").mean())["correct"]
        least = self.config.partition.pef_min_correct / self.config.sampling.presample.n
        near, never = int((by_question >= least).sum()), int((by_question == 0).sum())
        shares = f"({least:.0%} right or more), {never} without a right answer"
        lines.append(f"  {counted(near, 'question')} near-perfect {shares}")
        if near == 0 and never < len(by_question):
            lines.append("- D_pef may be empty: lower partition.pef_min_correct, or docs/how-to/supervised-start.md")
        if near == len(by_question):
            lines.append("- D_exp may be empty: raise partition.pef_min_correct, or add harder questions")
        return "\n".join([*lines, *self._faults(rule)])

    def _key(self, rule: str) -> str:
        train = str(self.config.train_dataset)
        dataset = self.config.datasets[train]
        if not rule:
            return f"task {dataset.task}"
        return f"{f'datasets.{train}' if dataset.answer else f'scoring.{dataset.task}'}.answer: {rule}"

    def _faults(self, rule: str) -> Iterator[str]:
        """Each fault with its share, one example, and the key that mends it."""
        train = str(self.config.train_dataset)
        longer = "raise sampling.<plan>.max_tokens and train.max_tokens, with room in engine.max_model_len"
        if self.limit < self.config.sampling.presample.max_tokens:
            longer = "a look waits for no longer answers; see whether these end"
        start = "or a supervised start (docs/how-to/supervised-start.md)"
        place = f"datasets.{train}.instruction, {start}"
        if self.best != rule:
            place = self._key(self.best)
        thinks = pl.col("detail").eq_missing(STILL_THINKING.detail)
        wrong = pl.col("verdict").is_in(("wrong", "refused", "parse_error", "runtime_error"))
        cut, none = pl.col("finish_reason") == "length", pl.col("verdict") == "no_answer"
        faults = [
            ("still thinking at the end", thinks, longer),
            ("cut off", cut & ~thinks, longer),
            ("without an answer", none & ~cut & ~thinks, place),
            ("wrong, and none right", wrong & ~pl.col("correct").any(), f"datasets.{train}.fields, {start}"),
            ("whose gold cannot be read", pl.col("verdict") == "gold_error", f"datasets.{train}.fields"),
            ("stopped by a limit", pl.col("verdict").is_in(_LIMITED), "timeout_s and other limits of the scorer"),
        ]
        judged = self.answers.join(self.verdicts[rule], on=["prompt_id", "sample_index"], maintain_order="left")
        for name, condition, mend in faults:
            examples = judged.filter(condition)["text"]
            if len(examples) > _MARGIN * judged.height:
                yield f"- {len(examples)} answers {name}: {mend}"
                yield f"    {'...' * (len(examples[0]) > _SHOWN)}{visible(examples[0][-_SHOWN:], '')!r}"
        if self.excluded:
            golds = counted(len(self.excluded), "gold")
            yield f"- {golds} would be excluded ({self.excluded[0]}): datasets.{train}.drop"


def look(config: Config, folder: Path) -> Look:
    """Draw answers of the base model to training questions, eight to each of sixteen, and judge them by each rule.

    Args:
        config: of a run with a training set.
        folder: where relative paths start.

    Raises:
        ValueError, OSError: there is no model or training set, the model cannot be read, or no row is a prompt.
    """
    train = config.train_dataset
    if not train or not config.has_model or config.toy:
        raise ValueError(
            "a look needs a model and your own training questions; the demo has its own, and recorded answers are"
            " judged by the run in seconds"
        )
    if config.gpu_gib and device_of_job() == "cpu":
        raise ValueError(
            "hardware.gpu_gib is set and this machine has no GPU: look where there is one, or set it to null"
            " (dphrl init --cpu does)"
        )
    dataset = config.datasets[train]
    source = data_file(dataset.source, folder)
    databases = folder / dataset.database_folder if dataset.database_folder else None
    rows = read_source(source)
    rows = rows[:: math.ceil(len(rows) / _LOOKED_AT)]
    started = time.perf_counter()
    model = _model(config, folder)
    reading = {"fields": {str(ours): theirs for ours, theirs in dataset.fields.items()}}
    prepared = prepare(
        rows,
        dataset.task,
        source.name,
        encoder(model, config.prompts.template),
        config.prompts.max_tokens,
        instruction=dataset.instruction,
        databases=databases,
        thoughts=config.scoring.thoughts,
        prefill=dataset.prefill,
        **reading,
    )
    prompts = prepared.prompts.sort("prompt_id").head(_QUESTIONS)
    answers, limit = _draw(config, model, prompts)
    seconds = time.perf_counter() - started
    gold = gold_of(prompts, prepared.rejected, rows, dataset.task, comparison=dataset.comparison, **reading)
    block, custom = slices.scoring(config, train)["scorer"], config.scoring.custom.get(dataset.task)
    file, verdicts = folder / custom.source if custom else None, dict[str, pl.DataFrame]()
    for rule in _RULES.get(dataset.task, ("",)):
        settings = block | ({"answer": rule} if rule else {})
        with make_scorer(dataset.task, settings, databases=databases, source=file) as scorer:
            verdicts[rule] = score_rollouts(answers, gold, prompts, scorer, config.scoring.thoughts)
            audited = audit_gold(gold, scorer, dataset.drop)
    excluded = audited.filter(~pl.col("kept"))["reason"].to_list()
    return Look(config, answers, verdicts, excluded, limit, seconds)


def print_look(files: Sequence[Path]) -> int:
    """Print a look at the base model of a configuration; the exit status is 1 if a run would stop at the partition.

    Args:
        files: of the configuration, each of which changes those before it.

    Raises:
        ConfigError, ValueError, OSError: the configuration is not valid, or `look` cannot draw.
    """
    config = read_config(*files)
    try:
        check_files(config, Path())
    except ConfigError as error:
        raise ConfigError(error.problems, files) from None
    looked = look(config, Path())
    print(visible(looked.report(looked.configured)))
    return 0 if looked.can_train(looked.configured) else 1


def _model(config: Config, folder: Path) -> Path:
    """The folder of the base model, after its checks."""
    base = str(config.policy.base)
    if config.policy.supervised:
        trained = f"{Layout(config).root}/policies/base"
        if not (folder / trained).is_dir():
            raise ValueError(f"{trained} is not there yet: the run trains its base, snakemake {trained}.json makes it")
        return folder / trained
    name = model_name(base, folder)
    model = snapshot(name, name.patterns)[0] if name else folder / base
    run_limited(check_base, model)
    return model


def _draw(config: Config, model: Path, prompts: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Answers as a table of the schema `rollouts`, and their longest length: first one to each question."""
    limit = min(_PATIENCE[device_of_job()], config.sampling.presample.max_tokens)
    plan = PlanConfig(**config.sampling.presample.model_dump() | {"n": _SAMPLES, "max_tokens": limit})
    asked = prompts.select("prompt_id", "prompt_token_ids").iter_rows()
    requests = SamplingPlan("presample", plan, config.seed).requests(asked)
    use_free_cores()
    engine = TransformersEngine(model, config.engine, config.hardware)
    started, first = time.perf_counter(), [request for request in requests if request.sample_index == 0]
    completions = engine.generate(first, "answers")
    samples = 1 + int(_SECONDS / (time.perf_counter() - started))
    more = [request for request in requests if 0 < request.sample_index < samples]
    return rollout_frame([*first, *more], [*completions, *engine.generate(more, "answers")]), limit


def _right(verdicts: pl.DataFrame) -> float:
    return float(verdicts.select(pl.col("correct").mean()).item())


def _answered(verdicts: pl.DataFrame) -> float:
    return float(verdicts.select((pl.col("verdict") != "no_answer").mean()).item())
