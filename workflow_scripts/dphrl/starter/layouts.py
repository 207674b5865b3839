"""Which task a file of questions is for, and which of its fields are ours."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dphrl.config.blocks.data import MATH, SQL
from dphrl.tasks.fields import NAMES, Fields, MalformedError, Renames
from dphrl.tasks.ground_truth import truth_of

# Names that are tried where a file has no known one; in small letters, with "_" for blanks and "-".
_QUESTION: Final = (
    *("ask", "input", "instruction", "text", "question_text", "query_text", "prompt_text", "problem_statement"),
    *("utterance", "nl_question", "nl", "q"),
)
_EXPECTED: Final = ("expected", "gold", "label", "reference", "target", "output", "result", "correct")
_ANSWER: Final = (
    *("expected_answer", "gold_answer", "reference_answer", "correct_answer", "ground_truth_answer", "answers"),
    *_EXPECTED,
)
_WANTED: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    SQL: {
        "question": _QUESTION,
        "db_id": ("db", "database", "database_id", "db_name", "database_name"),
        "gold_sql": ("sql", "gold_query", "sql_query", "target_sql", "expected_sql", *_EXPECTED),
    },
    MATH: {"question": (*_QUESTION, "query"), "answer": _ANSWER},
}
_CUSTOM: Final = {"question": (*_QUESTION, "query"), "ground_truth": (*_EXPECTED, "answer")}
# What has the same use.
_ALSO: Final = {
    "question": ("prompt", "messages"),
    "answer": ("solution", "ground_truth"),
    "gold_sql": ("ground_truth",),
}
_LOOKED_AT: Final = 200


class LayoutError(ValueError):
    """No task has the fields of a file; the text names the file, its fields and the expected ones."""


def layout_of(
    source: str, rows: Sequence[Mapping[str, Any]], task: str | None, given: Renames
) -> tuple[str, dict[str, Any]]:
    """The task of a file of questions, and `fields`: our name of a field -> the file's, where it is not a known one.

    Args:
        task: the task, if it is known; then only its fields are looked for.
        given: names that the user gave; they come first.

    Raises:
        LayoutError: no task fits half of the first rows.
    """
    head, reasons = rows[:_LOOKED_AT], list[str]()
    for name in (task,) if task else (SQL, MATH):
        fields = {**_renamed(head, name), **given}
        lookup, fitting, reason = Fields(fields), 0, ""
        for row in head:
            try:
                truth_of(row, name, lookup)
                fitting += 1
            except MalformedError as error:
                reason = reason or str(error)
        if 2 * fitting >= len(head):
            return name, fields
        reasons.append(f"{name}: {reason}")
    expected = "; ".join(reasons)
    raise LayoutError(
        f"{source}: its fields are {', '.join(map(str, rows[0]))}, and no task has them ({expected}). Name them, for "
        "instance --field question=THEIRS --field answer=THEIRS; another task needs --task NAME --scorer FILE "
        "(docs/datasets.md, docs/how-to/own-scorer.md)"
    )


def _renamed(rows: Sequence[Mapping[str, Any]], task: str) -> dict[str, str]:
    """The fields that the rows have under a name of `_WANTED`, by our name."""
    present = [str(name) for name in dict.fromkeys(name for row in rows for name, value in row.items() if value)]
    plain = {name.lower().replace("-", "_").replace(" ", "_"): name for name in present}
    found: dict[str, str] = {}
    for ours, others in _WANTED.get(task, _CUSTOM).items():
        known = [name for one in (ours, *_ALSO.get(ours, ())) for name in NAMES[one]]
        nested = ours != "question" and "reward_model" in present
        if nested or any(name in present for name in known):
            continue
        taken = found.values()
        name = next((plain[other] for other in others if other in plain and plain[other] not in taken), None)
        if name is not None:
            found[ours] = name
    return found
