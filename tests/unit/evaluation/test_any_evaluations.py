"""All tables of any evaluations.

As in a run of the workflow, all prompts of a dataset have the same number of samples under all policies.
"""

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from made_evaluations import all_tables, evaluation, study, with_classes

from dphrl.evaluation.names import BASE
from dphrl.evaluation.variety import FEWEST_PROMPTS
from dphrl.store.catalogue import SCHEMAS

K = (1, 2, 4, 8)
# Codes of answers below it are right.
WRONG = 3


def first_alike(codes: np.ndarray) -> list[list[int | None]]:
    """For each sample the first one of its prompt with the same code; nothing for a negative code."""
    return [[None if code < 0 else row.index(code) for code in row] for row in codes.tolist()]


def evaluated(
    answers: np.ndarray, policy: tuple[str, int, int], dataset: str, style: tuple[str, ...], programs: bool
) -> pl.DataFrame:
    """The evaluation of a policy with these answers, (prompts, n) codes: negative without one, right below `WRONG`."""
    right = (answers >= 0) & (answers < WRONG)
    frame = evaluation(right, policy[0], dataset, *policy[1:], style)
    classes = first_alike(answers) if (answers >= 0).any() else None
    # Two answers share a program. Solutions of mathematics, right or wrong, share a skeleton.
    made = {"programs": first_alike(answers // 2)} if programs else {"skeletons": first_alike(answers % 2)}
    return with_classes(frame, classes, **made)


@st.composite
def evaluations(draw: st.DrawFn) -> pl.DataFrame:
    """Evaluations of the base and of some steps of some trainings on one or two datasets."""
    trainings = draw(st.sets(st.tuples(st.sampled_from(("grpo", "dph_f")), st.integers(1, 2)), min_size=1))
    steps = draw(st.sampled_from(((8,), (4, 8))))
    policies = [(BASE, 0, 0), *((*training, step) for training in sorted(trainings) for step in steps)]
    frames = []
    for dataset in draw(st.sampled_from((("d",), ("d", "e")))):
        shape = draw(st.tuples(st.integers(1, 3), st.integers(1, 9)))
        # Few prompts are quick to draw; `rarefied` needs many.
        copies = draw(st.sampled_from((1, FEWEST_PROMPTS)))
        style = draw(st.sampled_from(((), ("a",), ("a", "b", "c"))))
        programs = draw(st.booleans())
        levels = draw(st.lists(st.sampled_from(("easy", "hard", None)), min_size=shape[0], max_size=shape[0]))
        level = pl.Series("level", levels * copies, dtype=pl.String)
        codes = arrays(np.int64, shape, elements=st.integers(-1, 2 * WRONG - 1), fill=st.nothing())
        for policy in policies:
            answers = np.tile(draw(codes), (copies, 1))
            frames.append(evaluated(answers, policy, dataset, style, programs).with_columns(level))
    return pl.concat(frames)


@settings(max_examples=25)
@given(evaluations())
def test_any_evaluations_have_all_tables_in_their_schemas(frame: pl.DataFrame) -> None:
    for name, table in all_tables(study(frame, K)).items():
        SCHEMAS[name].conform(table, name)
