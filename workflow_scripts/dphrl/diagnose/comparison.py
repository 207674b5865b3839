"""Everything that is computed of a base's file and tuned models' files: each model with the base, by itself."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dphrl.config.blocks.evaluation import EvaluateConfig, StyleRule
from dphrl.data.sample_files import SampleFile
from dphrl.diagnose import remarks
from dphrl.diagnose.classes import evaluations, with_answers
from dphrl.diagnose.joined import Joined, join, known_as, policy_names
from dphrl.evaluation.against_base import crossing
from dphrl.evaluation.diagnosis import (
    LEFT_OUT,
    Diagnosis,
    Variety,
    decide,
    diagnosis_k,
    hotter,
    kinds_of,
    together,
    varied,
)
from dphrl.evaluation.doubts import guessed, look_chosen
from dphrl.evaluation.names import BASE
from dphrl.evaluation.sentences import five_lines, further
from dphrl.evaluation.study import Policy, Study
from dphrl.evaluation.tables import passk

# Questions that a note names.
_SHOWN = 3


class KError(ValueError):
    """More than a fifth of the questions have fewer samples than k; the text names the largest possible k."""


@dataclass(frozen=True)
class OfModel:
    """A tuned model with the base.

    Attributes:
        diagnosis: on coverage at K.
        doubts: sentences that qualify it.
        varieties: among right answers, by kind; the first one is reported.
        lost: questions with right answers of the base and none of the tuned model: prompt_id, and the numbers of
            base_right, base_samples and tuned_samples.
        joined, study: the samples of the model and of the base, and their evaluations on the questions that count.
    """

    diagnosis: Diagnosis
    doubts: list[str]
    varieties: list[Variety]
    lost: pl.DataFrame
    joined: Joined
    study: Study

    @property
    def lines(self) -> list[str]:
        """The five lines of the diagnosis."""
        return five_lines(self.diagnosis, self.doubts)

    @property
    def further(self) -> list[str]:
        """Sentences after them: variety, hotter files, other doubts."""
        return further(self.diagnosis, self.doubts)


@dataclass(frozen=True)
class Comparison:
    """The comparison of tuned models with their base.

    Attributes:
        margin: of the diagnoses.
        models: by name, in the order of the files.
        tables: by name; `passk` and `crossing` of `dphrl.evaluation`, `answers` and `by_base`.
        notes: remarks for the reader, about all models.
        exit_code: of all diagnoses together, as `together` says.
    """

    margin: float
    models: dict[str, OfModel]
    tables: dict[str, pl.DataFrame]
    notes: list[str]
    exit_code: int


def diagnose(
    files: Sequence[SampleFile],
    *,
    trainings: Mapping[str, Sequence[SampleFile]] | None = None,
    hotter_files: Sequence[SampleFile] = (),
    k: int | None = None,
    margin: float = 0.05,
    styles: Sequence[StyleRule] = (),
    seed: int = 0,
    step: Callable[[str], None] = lambda name: None,
) -> Comparison:
    """Compare each tuned model with the base, on the questions that its files and the base's answer, at their K.

    Args:
        files: the base's, then one for each tuned model; all judged.
        trainings: files of further models, one for each training of a model.
        hotter_files: of the only tuned model, at higher temperatures.
        k: of the diagnoses; None: `diagnosis_k`.
        margin: the share of questions whose loss is excluded for NOT COLLAPSED.
        styles: rules tried in order on the start of a response.
        seed: of resampled intervals and of halves.
        step: called with the name of each part of the work before it starts.

    Raises:
        KError: too many questions have fewer samples than k.
        SourceError: as `dphrl.diagnose.joined.join`.
    """
    names = policy_names(files)
    of_models = {name: [file] for name, file in zip(names[1:], files[1:], strict=True)}
    of_models |= {name: list(several) for name, several in (trainings or {}).items()}
    models, tables, notes = {}, [], []
    for name, of_model in of_models.items():
        step(f"comparing {name}")
        model, of_tables, said = _compare(files[0], name, of_model, hotter_files, k, margin, styles, seed)
        models[name] = model
        tables.append(of_tables)
        notes += said
    decided, exit_code = together([model.diagnosis for model in models.values()])
    models = {
        name: replace(model, diagnosis=diagnosis)
        for (name, model), diagnosis in zip(models.items(), decided, strict=True)
    }
    merged = {name: pl.concat([by_name[name] for by_name in tables]).unique(maintain_order=True) for name in tables[0]}
    return Comparison(margin, models, merged, list(dict.fromkeys(notes)), exit_code)


def _compare(
    base_file: SampleFile,
    name: str,
    of_model: Sequence[SampleFile],
    hotter_files: Sequence[SampleFile],
    k: int | None,
    margin: float,
    styles: Sequence[StyleRule],
    seed: int,
) -> tuple[OfModel, dict[str, pl.DataFrame], list[str]]:
    """A tuned model with the base, its tables and its notes."""
    own = [name] if len(of_model) == 1 else [f"{name} ({number})" for number in range(1, len(of_model) + 1)]
    hot = policy_names([base_file, *of_model, *hotter_files])[1 + len(of_model) :]
    files = dict(zip([BASE, *own, *hot], [base_file, *of_model, *hotter_files], strict=True))
    joined = join(list(files.values()), list(files))
    # The numbers of several trainings are those in their names.
    numbers = enumerate(own, start=len(own) > 1)
    joined = replace(joined, trainings={policy: (name, number) for number, policy in numbers})
    rows = with_answers(joined.rows)
    evaluated = evaluations(joined, rows, styles)
    every = Study.from_evaluations(evaluated, EvaluateConfig(k=(1,)), seed)
    chosen = any(look_chosen(policy.sizes, policy.right) for policy in every.policies)
    # Files at higher temperatures choose neither K nor questions that the diagnosis counts twice.
    counted = [policy for policy in every.policies if policy.key.method in (BASE, name)]
    sizes = np.min([policy.sizes for policy in counted], axis=0)
    default = diagnosis_k(sizes)
    if k is not None:
        _check_k(k, sizes, counted, joined)
    used = k or default
    study = _study(evaluated, every, sizes >= used, used, seed)
    by_method = {
        method: [policy for policy in study.policies if policy.key.method == method] for method in (BASE, name, *hot)
    }
    (base,), tuned = by_method[BASE], by_method[name]
    study = replace(study, policies=[base, *tuned])
    varieties, guesses = _varieties(study, rows), _guesses(base, len(tuned), rows, used)
    diagnosis = decide(
        base,
        tuned,
        used,
        margin,
        chosen=chosen,
        guesses=guesses,
        unanswered=remarks.unanswered(joined, own),
        variety=next(iter(varieties), None),
        by_hand=k is not None and k != default,
    )
    if hot:
        diagnosis = hotter(diagnosis, base, {method: by_method[method] for method in hot}, seed)
    shares = remarks.answers(joined)
    named = dict(zip([BASE, *own], [base_file, *of_model], strict=True))
    doubts = remarks.doubts(diagnosis, joined, shares, named, dict(zip(named, [base, *tuned], strict=True)))
    notes = [*_left_out(joined), *_short(joined, sizes, used), *joined.notes]
    if guesses is None and used > 1:
        notes.append(
            "Answers have no classes that show guesses; where they can be guessed, a loss may be one of guesses."
        )
    tables = {
        "answers": shares,
        "passk": passk(study),
        "by_base": remarks.by_base(base, tuned, used),
        "crossing": crossing(study),
    }
    return OfModel(diagnosis, doubts, varieties, _lost(base, tuned), joined, study), tables, notes


def _left_out(joined: Joined) -> Iterator[str]:
    """A note on each file with questions that are not in all files."""
    for name, questions in joined.left_out.items():
        if questions:
            yield f"{name}: {len(questions):,} questions are not in every file and left out: {_listed(questions)}"


def _short(joined: Joined, sizes: NDArray[np.int64], k: int) -> Iterator[str]:
    """A note on the questions that have fewer than k samples."""
    few = joined.questions.select("prompt_id", "question").filter(pl.Series(sizes < k))
    if few.height:
        labels = [known_as(*row) for row in few.iter_rows()]
        yield f"{few.height:,} questions have fewer than {k} samples in a file and are left out: {_listed(labels)}"


def _listed(questions: Sequence[str]) -> str:
    """Ids as they are, texts in quotes."""
    short = (text if len(text) <= 60 else f"{text[:57]}..." for text in questions[:_SHOWN])
    named = ", ".join(repr(text) if " " in text else text for text in short)
    return f"{named}, ..." if len(questions) > _SHOWN else named


def _check_k(k: int, sizes: NDArray[np.int64], counted: Sequence[Policy], joined: Joined) -> None:
    """Refuse a k that leaves out more than a fifth of the questions."""
    if (sizes < k).mean() <= LEFT_OUT:
        return
    most = int(np.sort(sizes)[int(LEFT_OUT * len(sizes))])
    holder = min(counted, key=lambda policy: policy.n)
    place = int(holder.sizes.argmin())
    key, text = joined.questions.select("prompt_id", "question").row(place)
    raise KError(
        f"--k {k}: question {known_as(key, text)[:60]!r} of {holder.key.method} has only {holder.n} samples, and k"
        f" draws need k samples of four fifths of the questions in every file; the largest possible k is {most}"
    )


def _study(evaluated: pl.DataFrame, every: Study, counts: NDArray[np.bool_], k: int, seed: int) -> Study:
    """The study of the questions that count, at all powers of two up to their samples, and k."""
    rows = evaluated
    if not counts.all():
        keys = every.policies[0].rows["prompt_id"].filter(pl.Series(counts))
        rows = evaluated.filter(pl.col("prompt_id").is_in(keys.implode()))
    fewest = int(rows["n"].min())  # type: ignore[arg-type]
    config = EvaluateConfig(k=tuple(sorted({*(1 << power for power in range(fewest.bit_length())), k})))
    return replace(every, config=config) if counts.all() else Study.from_evaluations(rows, config, seed)


def _guesses(base: Policy, trainings: int, rows: Mapping[str, pl.DataFrame], k: int) -> tuple[float, float] | None:
    """pass@k of base and tuned model with the right answer of another question; None without classes of answers.

    Args:
        rows: by policy, the base first, then the trainings.
    """
    if _whole(rows) or k == 1:
        return None
    keys = base.rows["prompt_id"].implode()
    here = [frame.filter(pl.col("prompt_id").is_in(keys)) for frame in list(rows.values())[: 1 + trainings]]
    hit = guessed({str(number): frame for number, frame in enumerate(here)}, k)
    return None if hit is None else (hit["0"], float(np.mean([hit[place] for place in hit if place != "0"])))


def _varieties(study: Study, rows: Mapping[str, pl.DataFrame]) -> list[Variety]:
    base, *tuned = study.policies
    kinds = ("responses" if _whole(rows) and kind == "answers" else kind for kind in kinds_of(study))
    return [variety for kind in kinds if (variety := varied(base, tuned, kind)) is not None]


def _whole(rows: Mapping[str, pl.DataFrame]) -> bool:
    """Whether classes are of whole responses."""
    return "whole" in next(iter(rows.values())).columns


def _lost(base: Policy, tuned: Sequence[Policy]) -> pl.DataFrame:
    """The questions that the base solves and the tuned model does not, the base's surest first."""
    counts = {"base_right": base.right, "base_samples": base.sizes}
    counts["tuned_right"] = np.sum([policy.right for policy in tuned], axis=0)
    counts["tuned_samples"] = np.sum([policy.sizes for policy in tuned], axis=0)
    rows = base.rows.select("prompt_id").with_columns(pl.Series(name, values) for name, values in counts.items())
    lost = rows.filter(pl.col("base_right") > 0, pl.col("tuned_right") == 0).drop("tuned_right")
    return lost.sort(-pl.col("base_right") / pl.col("base_samples"), "prompt_id")
