"""The comparison of each tuned model with the base, from their files of samples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dphrl.config.blocks.evaluation import EvaluateConfig, StyleRule
from dphrl.data.records import SourceError
from dphrl.data.sample_files import SampleFile, listed
from dphrl.diagnose import doubts, measures
from dphrl.diagnose.classes import evaluations, with_answers
from dphrl.diagnose.joined import Joined, join, policy_names
from dphrl.evaluation.chosen import look_chosen
from dphrl.evaluation.diagnosis import (
    LEFT_OUT,
    Diagnosis,
    decide,
    diagnosis_k,
    hotter,
    together,
)
from dphrl.evaluation.names import BASE
from dphrl.evaluation.study import Study
from dphrl.evaluation.tables import passk
from dphrl.evaluation.variety import Variety, kinds_of, varied
from dphrl.report.sentences import five_lines, further


@dataclass(frozen=True)
class ModelComparison:
    """The comparison of one tuned model with the base.

    Attributes:
        diagnosis: on coverage at K.
        doubts: sentences that qualify it.
        varieties: among right answers, by kind; the first one is reported.
        lost: questions with right answers of the base and none of the tuned model: prompt_id, and the numbers of
            base_right, base_samples and tuned_samples.
        joined, study: the samples of the model and of the base, and their evaluations on the questions that count.
        tables: by name; `passk`, `crossing`, `answers` and `by_base`.
        notes: remarks on the files for the reader.
    """

    diagnosis: Diagnosis
    doubts: list[str]
    varieties: list[Variety]
    lost: pl.DataFrame
    joined: Joined
    study: Study
    tables: dict[str, pl.DataFrame]
    notes: list[str]

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
        files: by policy, the base first.
        models: by name, in the order of the files.
        exit_code: of all diagnoses together, as `together` says.
    """

    margin: float
    files: dict[str, SampleFile]
    models: dict[str, ModelComparison]
    exit_code: int

    @property
    def tables(self) -> dict[str, pl.DataFrame]:
        """The tables of all models; models on equal questions share the rows of the base."""
        each = [model.tables for model in self.models.values()]
        return {name: pl.concat([tables[name] for tables in each]).unique(maintain_order=True) for name in each[0]}

    @property
    def notes(self) -> list[str]:
        """The notes of all models, each once."""
        return list(dict.fromkeys(note for model in self.models.values() for note in model.notes))


def diagnose(
    files: Sequence[SampleFile],
    *,
    trainings: Mapping[str, Sequence[SampleFile]] | None = None,
    hotter_files: Sequence[SampleFile] = (),
    k: int | None = None,
    margin: float = 0.05,
    styles: Sequence[StyleRule] = (),
) -> Comparison:
    """Compare each tuned model with the base, on the questions that its files and the base's answer, at their K.

    Args:
        files: the base's, then one for each tuned model; all judged.
        trainings: files of further models, one for each training of a model.
        hotter_files: of the only tuned model, at higher temperatures.
        k: of the diagnoses; None: `diagnosis_k`.
        margin: the share of questions whose loss is excluded for NOT COLLAPSED.
        styles: rules tried in order on the start of a response.

    Raises:
        SourceError: as `join`, or too many questions have fewer samples than k.
    """
    base, *tuned = files
    of_models = {name: [file] for name, file in zip(policy_names(files)[1:], tuned, strict=True)}
    of_models |= {name: list(several) for name, several in (trainings or {}).items()}
    every: dict[str, SampleFile] = {}
    models = {}
    for name, of_model in of_models.items():
        own = [name] if len(of_model) == 1 else [f"{name} ({number})" for number in range(1, len(of_model) + 1)]
        named = dict(zip([BASE, *own], [base, *of_model], strict=True))
        hot = dict(zip(policy_names([base, *of_model, *hotter_files])[len(named) :], hotter_files, strict=True))
        models[name] = _compare(name, named, hot, k, margin, styles)
        every |= named | hot
    decided, exit_code = together([model.diagnosis for model in models.values()])
    models = {
        name: replace(model, diagnosis=diagnosis)
        for (name, model), diagnosis in zip(models.items(), decided, strict=True)
    }
    return Comparison(margin, every, models, exit_code)


def _compare(
    name: str,
    files: Mapping[str, SampleFile],
    hot: Mapping[str, SampleFile],
    k: int | None,
    margin: float,
    styles: Sequence[StyleRule],
) -> ModelComparison:
    """A tuned model with the base.

    Args:
        files: by policy, the base and the trainings of the model.
        hot: by policy, at higher temperatures.
    """
    joined = join({**files, **hot})
    notes = list(joined.notes)
    # Files at higher temperatures choose neither K nor questions.
    samples = [joined.rows[policy]["prompt_id"].rle().struct.field("len").cast(pl.Int64) for policy in files]
    sizes: NDArray[np.int64] = np.min(samples, axis=0)
    used = diagnosis_k(sizes) if k is None else _possible(k, sizes)
    if (sizes < used).any():
        few = joined.questions["prompt_id"].filter(pl.Series(sizes < used)).to_list()
        notes.append(f"{len(few):,} questions have fewer than {used} samples in a file and are left out: {listed(few)}")
        joined = joined.without(few)
    joined = with_answers(joined)
    keys = {policy: (policy, 0) for policy in joined.rows}
    if len(files) > 2:
        keys |= {policy: (name, number) for number, policy in enumerate(files) if number}
    tries = {1 << power for power in range(int(sizes[sizes >= used].min()).bit_length())}
    config = EvaluateConfig(k=tuple(sorted({*tries, used})))
    every = Study.from_evaluations(evaluations(joined, keys, styles), config, seed=0)
    by_method = {
        method: [policy for policy in every.policies if policy.key.method == method] for method in (BASE, name, *hot)
    }
    (base,), tuned = by_method[BASE], by_method[name]
    study = replace(every, policies=[base, *tuned])
    kinds = ("responses" if joined.whole and kind == "answers" else kind for kind in kinds_of(study))
    varieties = [variety for kind in kinds if (variety := varied(base, tuned, kind)) is not None]
    own = list(files)[1:]
    guesses = None
    if not joined.whole and used > 1:
        guesses = measures.guessed(joined.rows[BASE], [joined.rows[policy] for policy in own], used)
    if guesses is None and used > 1:
        notes.append(
            "Answers have no classes that show guesses; where they can be guessed, a loss may be one of guesses."
        )
    diagnosis = decide(
        base,
        tuned,
        used,
        margin,
        chosen=any(look_chosen(policy.sizes, policy.right) for policy in every.policies),
        guesses=guesses,
        unanswered=doubts.unanswered(joined, own),
        variety=next(iter(varieties), None),
        by_hand=k is not None and k != diagnosis_k(sizes),
    )
    if hot:
        diagnosis = hotter(diagnosis, base, {method: by_method[method] for method in hot}, every.seed)
    shares = measures.answers(joined)
    tables = {
        "answers": shares,
        "passk": passk(study),
        "by_base": measures.by_base(base, tuned, used),
        "crossing": measures.crossing(base, tuned),
    }
    qualified = doubts.doubts(diagnosis, joined, shares, files)
    return ModelComparison(diagnosis, qualified, varieties, measures.lost(base, tuned), joined, study, tables, notes)


def _possible(k: int, sizes: NDArray[np.int64]) -> int:
    """k, if it leaves out no more than a fifth of the questions."""
    if (sizes < k).mean() > LEFT_OUT:
        most = int(np.sort(sizes)[int(LEFT_OUT * len(sizes))])
        raise SourceError(
            f"--k {k}: k draws need k samples of four fifths of the questions in every file; the largest possible k is"
            f" {most}"
        )
    return k
