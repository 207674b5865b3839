"""The diagnosis on each method of a run: its numbers by the rule, its text in the words of `dphrl diagnose`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import polars as pl

from dphrl.evaluation.chosen import look_chosen
from dphrl.evaluation.diagnosis import Diagnosis, decide, diagnosis_k, hotter, together
from dphrl.evaluation.paired import paired_difference
from dphrl.evaluation.study import Policy, Study
from dphrl.evaluation.variety import kinds_of, varied
from dphrl.report.methods import label
from dphrl.report.sentences import five_lines, further
from dphrl.store.catalogue import SCHEMAS


def collapse(study: Study, drawn_hotter: Mapping[float, Study] = MappingProxyType({})) -> dict[str, pl.DataFrame]:
    """The tables of the diagnoses after the last steps.

    All trainings of a method are one tuned model. K comes from `diagnosis_k`, the margin from the claims, and the
    methods of a dataset share Holm's correction. Guesses are not looked for: classes of answers hold within one
    question.

    Args:
        drawn_hotter: by temperature, the policies of the last steps that were drawn at it too.

    Returns:
        collapse: a row for each diagnosis.
        hotter: pass@K at each higher temperature, less that of the base. `judged` is the difference at the temperature
            that the other half of the questions chose, `recovers` whether no loss is left there.
    """
    rows: list[tuple[object, ...]] = []
    at_each: list[tuple[object, ...]] = []
    last = study.last_steps()
    for dataset, policies in last.by_dataset().items():
        base, *others = policies
        kinds = kinds_of(replace(last, policies=policies))
        k = diagnosis_k(np.min([policy.sizes for policy in policies], axis=0))
        chosen = look_chosen(base.sizes, base.right)
        diagnoses: list[Diagnosis] = []
        for method in dict.fromkeys(policy.key.method for policy in others):
            tuned = [policy for policy in others if policy.key.method == method]
            variety = next((contrast for kind in kinds if (contrast := varied(base, tuned, kind)) is not None), None)
            diagnosis = decide(base, tuned, k, study.config.claims.margin, chosen=chosen, variety=variety)
            drawn = {
                temperature: [policy for policy in drawn_at.policies if policy.key[::3] == (method, dataset)]
                for temperature, drawn_at in drawn_hotter.items()
            }
            # Recorded answers cannot be drawn again.
            if any(drawn.values()):
                by_name = {_named(temperature): policies for temperature, policies in drawn.items()}
                diagnosis = hotter(diagnosis, base, by_name, study.seed)
                at_each += _at_each(diagnosis, base, drawn)
            diagnoses.append(diagnosis)
        for diagnosis in together(diagnoses)[0]:
            coverage, labelled = diagnosis.coverage, replace(diagnosis, policy=label(diagnosis.policy))
            text = " ".join([*five_lines(labelled), *further(labelled)])
            rows.append((dataset, diagnosis.policy, diagnosis.word, k, coverage.value, *coverage.wide, text))
    return {"collapse": SCHEMAS["collapse"].frame(rows), "hotter": SCHEMAS["hotter"].frame(at_each)}


def _named(temperature: float) -> str:
    return f"temperature {temperature:g}"


def _at_each(
    diagnosis: Diagnosis, base: Policy, drawn: Mapping[float, Sequence[Policy]]
) -> Iterator[tuple[object, ...]]:
    """The rows of a method in the table "hotter"."""
    k, answer = [diagnosis.k], diagnosis.hotter
    solved = base.pass_at(k)[:, 0]
    for temperature, policies in drawn.items():
        gap = paired_difference(solved, np.stack([policy.pass_at(k)[:, 0] for policy in policies]), base.clusters)
        key = (base.key.dataset, diagnosis.policy, temperature, diagnosis.k)
        if answer is not None:
            judged = (answer.recovers, answer.coverage.value, *answer.coverage.wide)
            yield (*key, gap.tuned, gap.value, *gap.wide, _named(temperature) in answer.chosen, *judged)
