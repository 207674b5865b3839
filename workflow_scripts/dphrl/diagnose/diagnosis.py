"""Everything that is computed of a base's file and tuned models' files."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from dphrl.config.blocks.evaluation import StyleRule
from dphrl.diagnose.checks import answers, largest_k, left_out, limits, qualifications, unequal_settings
from dphrl.diagnose.classes import study_of
from dphrl.diagnose.joined import Joined, join, known_as
from dphrl.diagnose.portfolio import SCHEMA, portfolio
from dphrl.evaluation.against_base import crossing, keep_explore, transitions
from dphrl.evaluation.rarefied import diversity_split, rarefaction
from dphrl.evaluation.sentences import sentences
from dphrl.evaluation.study import Policy, Study
from dphrl.evaluation.tables import passk, per_level
from dphrl.evaluation.verdict import (
    CANNOT_TELL,
    COLLAPSED,
    EXIT,
    KINDS,
    NOT_COLLAPSED,
    Variety,
    Verdict,
    decide,
    paired,
    variety,
)
from dphrl.sample_files.formats import DPHRL
from dphrl.sample_files.samples import SampleFile


class KError(ValueError):
    """More draws than samples."""


class Lost(NamedTuple):
    """A question that the base solves and a tuned model does not: right samples and samples of both."""

    prompt_id: str
    base_right: int
    base_samples: int
    tuned_samples: int


@dataclass(frozen=True)
class OfModel:
    """What is found of one tuned model.

    Attributes:
        verdict: on coverage at K.
        qualified: sentences that qualify it.
        varieties: among right answers, by kind; the first one is reported.
        lost: questions of which the base has a right answer and the tuned model none, by the base's solve rate.
    """

    verdict: Verdict
    qualified: list[str]
    varieties: list[Variety]
    lost: list[Lost]

    @property
    def sentences(self) -> list[str]:
        """The verdict, the variety and what qualifies the verdict, in words."""
        return sentences(self.verdict, next(iter(self.varieties), None), self.qualified)


@dataclass(frozen=True)
class Diagnosis:
    """The comparison of tuned models with their base.

    Attributes:
        joined, study: the samples and their evaluations.
        k, margin: of the verdicts.
        models: by name, in the order of the files.
        tables: by name; those of `dphrl.evaluation`, and `answers`, `portfolio` and `levels`.
        notes: what a reader must know, about all models.
    """

    joined: Joined
    study: Study
    k: int
    margin: float
    models: dict[str, OfModel]
    tables: dict[str, pl.DataFrame]
    notes: list[str]

    @property
    def exit_code(self) -> int:
        """3 if any model collapsed, else 4 if any verdict cannot tell, else 0."""
        words = {model.verdict.word for model in self.models.values()}
        return EXIT[next(word for word in (COLLAPSED, CANNOT_TELL, NOT_COLLAPSED) if word in words)]


def diagnose(
    files: Sequence[SampleFile],
    *,
    k: int | None = None,
    margin: float = 0.05,
    styles: Sequence[StyleRule] = (),
    seed: int = 0,
    step: Callable[[str], None] = lambda name: None,
) -> Diagnosis:
    """Compare tuned models with their base.

    Args:
        files: the base's, then one for each tuned model; all judged.
        k: of the verdicts; None: the largest power of two that every file allows for every question.
        margin: the share of questions whose loss is excluded for NOT COLLAPSED.
        styles: rules tried in order on the start of a response.
        seed: of resampled intervals and of the halves of the portfolio.
        step: called with the name of each part of the work before it starts.

    Raises:
        KError: k is larger than the number of samples of a question.
        SourceError: as `dphrl.diagnose.joined.join`.
    """
    step("joining questions")
    joined = join(files)
    fewest, holder = _fewest(joined)
    chosen = k if k is not None else largest_k([fewest])
    if chosen > fewest:
        raise KError(
            f"--k {chosen}: {holder} has only {fewest} samples, and k draws need k samples of every question in every"
            f" file; the largest possible k is {fewest}"
        )
    step("comparing answers")
    ks = sorted({*(1 << power for power in range(fewest.bit_length())), chosen})
    study = study_of(joined, styles, ks, seed)
    base, tuned = study.policies[0], {policy.key.method: policy for policy in study.policies[1:]}
    step("tables")
    shares = answers(joined)
    budgets = [one for one in ks if 1 < one <= chosen]
    tables = {
        "answers": shares,
        "passk": passk(study),
        "crossing": crossing(study),
        "keep_explore": keep_explore(study),
        "rarefied": rarefaction(study),
        "diversity_split": diversity_split(study),
        "transitions": transitions(study),
        "keep_explore_levels": per_level(study, keep_explore),
        "levels": _levels(study, joined.tuned, chosen),
    }
    step("portfolio")
    splits = [portfolio(base, tuned[name], budgets, seed) for name in joined.tuned]
    tables["portfolio"] = pl.concat([pl.DataFrame(schema=SCHEMA), *splits])
    step("verdict")
    extracted = files[0].format == DPHRL.name
    kinds = [kind for kind in KINDS if study.datasets_with(kind)]
    if "skeletons" in kinds:
        # Right answers are one class by their value, unless nothing was calculated.
        calculated = any((policy.codes("skeletons") > 0).any() for policy in study.policies)
        kinds.remove("answers" if calculated else "skeletons")
    models = {}
    for name in joined.tuned:
        varieties = [variety(base, tuned[name], kind) for kind in kinds]
        found = [one for one in varieties if one is not None]
        verdict = decide(base, tuned[name], chosen, margin)
        qualified = qualifications(shares, verdict, extracted)
        models[name] = OfModel(verdict, qualified, found, _lost(base, tuned[name]))
    by_name = dict(zip(joined.rows, files, strict=True))
    notes = [*unequal_settings(by_name), *left_out(joined), *limits(study, joined), *joined.notes]
    return Diagnosis(joined, study, chosen, margin, models, tables, notes)


def _fewest(joined: Joined) -> tuple[int, str]:
    """The fewest samples that any question has in any file, and where."""
    texts = dict(joined.questions.select("prompt_id", "question").iter_rows())
    found = []
    for name, rows in joined.rows.items():
        key, number = rows.group_by("prompt_id").len().sort("len", "prompt_id").row(0)
        found.append((number, f"question {known_as(key, texts[key])[:60]!r} of {name}"))
    return min(found, key=lambda one: one[0])


def _levels(study: Study, tuned: Sequence[str], k: int) -> pl.DataFrame:
    """pass@k of both by level, with the 95 % interval of the difference."""
    columns = {"level": pl.String(), "method": pl.String(), "questions": pl.Int32(), "k": pl.Int32()}
    columns |= dict.fromkeys(("base", "tuned", "difference", "low", "high"), pl.Float64())
    rows: list[tuple[object, ...]] = []
    for level, part in study.levels:
        passed = {policy.key.method: policy.pass_at([k])[:, 0] for policy in part.policies}
        base = next(iter(passed.values()))
        for name in tuned:
            found = paired(passed[name] - base, shares=True)
            rows.append((level, name, len(base), k, base.mean(), passed[name].mean(), found.value, *found.wide))
    frame = pl.DataFrame(rows, schema=columns, orient="row")
    return frame.with_columns(pl.selectors.float().fill_nan(None))


def _lost(base: Policy, tuned: Policy) -> list[Lost]:
    columns = ("prompt_id", "c", "n")
    both = base.rows.select(columns).join(
        tuned.rows.select(columns), on="prompt_id", suffix="_tuned", maintain_order="left"
    )
    rows = both.filter(pl.col("c") > 0, pl.col("c_tuned") == 0)
    rows = rows.sort(-pl.col("c") / pl.col("n"), "prompt_id").select(*columns, "n_tuned")
    return [Lost(*row) for row in rows.iter_rows()]
