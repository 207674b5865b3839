"""The tables of a run, each made from the `Study` of its evaluations and declared in `store/catalogue.py`.

Intervals are over prompts, or clusters of them where five or more are named for a dataset (`interval.ratio`).
Rows are sorted by dataset, policy (base first) and then as the table says; the same input gives the same rows.
Tables of pass@k and the like raise `ValueError` where every k is larger than the number of samples.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import polars as pl

from dphrl.evaluation.against_base import keep_explore
from dphrl.evaluation.claims import judged
from dphrl.evaluation.comparisons import comparisons
from dphrl.evaluation.diagnosis import Diagnosis, decide, diagnosis_k, hotter, kinds_of, together, varied
from dphrl.evaluation.doubts import look_chosen
from dphrl.evaluation.frontier import frontier_table, paths
from dphrl.evaluation.interval import Floats
from dphrl.evaluation.methods import label
from dphrl.evaluation.names import STYLES
from dphrl.evaluation.paired import compared
from dphrl.evaluation.rarefied import rarefaction
from dphrl.evaluation.sentences import five_lines, further
from dphrl.evaluation.study import Policy, Study
from dphrl.store.catalogue import SCHEMAS


def tabulate(study: Study, drawn_hotter: Mapping[float, Study] = MappingProxyType({})) -> dict[str, pl.DataFrame]:
    """The tables by name; columns and errors are described at the function that makes each.

    Args:
        drawn_hotter: by temperature, the policies of the last steps that were drawn at it too.
    """
    followed = [*paths(study)]
    contrasts = comparisons(study, followed)
    return {
        "headline": headline(study),
        "passk": passk(study),
        "styles": styles(study),
        "keep_explore": keep_explore(study),
        "rarefied": rarefaction(study),
        "frontier": frontier_table(followed),
        "comparisons": contrasts,
        **collapse(study, drawn_hotter),
        "claims": judged(study.claims, contrasts, study.config.roles, study.config.claims),
    }


def passk(study: Study) -> pl.DataFrame:
    """The mean of pass@k over prompts, a row for each k up to n."""
    rows: list[tuple[object, ...]] = []
    for policy in study.policies:
        k = policy.up_to_n(study.config.k)
        rows += _rows(policy, policy.pass_at(k), k)
    return SCHEMAS["passk"].frame(rows)


def collapse(study: Study, drawn_hotter: Mapping[float, Study]) -> dict[str, pl.DataFrame]:
    """The diagnosis on each method after its last step, by the rule and in the words of `dphrl diagnose`.

    All trainings of a method are one tuned model. K comes from `diagnosis_k`, the margin from the claims, and the
    methods of a dataset share Holm's correction. Guesses are not looked for: classes of answers hold within one
    question.

    Returns:
        collapse: a row for each diagnosis.
        hotter: pass@K at each higher temperature, less that of the base. `judged` is the difference at the temperature
            that the other half of the questions chose, `recovers` whether no loss is left there.
    """
    rows: list[tuple[object, ...]] = []
    at_each: list[tuple[object, ...]] = []
    last = study.last_steps()
    for dataset in dict.fromkeys(policy.key.dataset for policy in last.policies):
        here = replace(last, policies=[policy for policy in last.policies if policy.key.dataset == dataset])
        base, *others = here.policies
        kinds, k = kinds_of(here), diagnosis_k(np.min([policy.sizes for policy in here.policies], axis=0))
        chosen = look_chosen(base.sizes, base.right)
        diagnoses: dict[str, Diagnosis] = {}
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
            diagnoses[method] = replace(diagnosis, policy=label(method))
        for method, diagnosis in zip(diagnoses, together([*diagnoses.values()])[0], strict=True):
            coverage, text = diagnosis.coverage, " ".join([*five_lines(diagnosis), *further(diagnosis)])
            rows.append((dataset, method, diagnosis.word, k, coverage.value, *coverage.wide, text))
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
        gap = compared(solved, np.stack([policy.pass_at(k)[:, 0] for policy in policies]), base.clusters)
        key = (base.key.dataset, diagnosis.policy, temperature, diagnosis.k)
        if answer is not None:
            judged = (answer.recovers, answer.coverage.value, *answer.coverage.wide)
            yield (*key, gap.tuned, gap.value, *gap.wide, _named(temperature) in answer.chosen, *judged)


def headline(study: Study) -> pl.DataFrame:
    """The figures that are quoted.

    Metrics in order: greedy (of a policy with greedy responses), mean@n and pass@k for the two largest k up to n,
    proportions; then distinct_styles, the mean number of styles of a prompt, where there are style rules; then
    constants, the share of the right samples that read no table, of programs.
    """
    rows: list[tuple[object, ...]] = []
    styled = study.datasets_with("styles")
    for policy in study.policies:
        proportions = policy.proportions(study.config.k)
        rows += _rows(policy, np.hstack(list(proportions.values())), proportions)
        if policy.key.dataset in styled:
            rows += _rows(policy, policy.column(STYLES), [STYLES], proportion=False)
        rows += _constants(policy)
    return SCHEMAS["headline"].frame(rows)


def styles(study: Study) -> pl.DataFrame:
    """How the samples divide among styles.

    Rows are the styles that any policy shows on a dataset, alphabetical; shares of a policy add up to 1.
    `distinct_styles` is the mean number of styles among the samples of a prompt, repeated on each row of a policy.
    Datasets without style rules have no rows.
    """
    shown: dict[str, set[str]] = defaultdict(set)
    for policy in study.policies:
        shown[policy.key.dataset].update(policy.rows["styles"].explode().drop_nulls().unique())
    rows: list[tuple[object, ...]] = []
    for policy in study.policies:
        if names := sorted(shown[policy.key.dataset]):
            counts = np.stack([policy.rows["styles"].list.count_matches(name).to_numpy() for name in names], axis=1)
            distinct = float((counts > 0).sum(axis=1).mean())
            rows += [(*row, distinct) for row in _rows(policy, counts / policy.sizes[:, None], names)]
    return SCHEMAS["styles"].frame(rows)


def _rows(
    policy: Policy, values: Floats, *labels: Iterable[object], proportion: bool = True
) -> Iterator[tuple[object, ...]]:
    """A row for each column of `values`, (prompts, rows): key of the policy, labels, mean and its interval."""
    intervals = policy.ratio(values, proportion=proportion)
    return ((*policy.key, *row) for row in zip(*labels, *intervals, strict=True))


def _constants(policy: Policy) -> Iterator[tuple[object, ...]]:
    """The row of the metric constants, if verdicts on right samples of the policy tell whether a table was read."""
    if "constants" in policy.rows.columns and policy.rows["constants"].count():
        judged = policy.rows.select("constants", right=pl.when(pl.col("constants").is_not_null()).then("c"))
        above, below = (judged.select(pl.col(name).fill_null(0).cast(pl.Float64)).to_numpy() for name in judged.columns)
        (value,), (low,), (high,) = policy.ratio(above, below)
        yield (*policy.key, "constants", value, low, high)
