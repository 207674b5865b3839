"""The ground truth of a row."""

import math
import re
from collections import ChainMap
from typing import Any, Final, get_args

from dphrl.config.scorers import Comparison
from dphrl.data.answer_text import last_boxed, split_at_commas
from dphrl.data.fields import Fields, MalformedError, Row, json_text, show, text

# Below 1e198, so that it fits into a float.
_TOLERANCE: Final = re.compile(r"\d{0,99}\.?\d{1,99}(e[+-]?\d{1,2})?", re.ASCII | re.IGNORECASE)
_DECIMAL: Final = re.compile(r"(-?)(?=\d)0*+(\d*+)(?:\.(\d*+))?", re.ASCII)
# The scorer compares no longer answers.
_MOST_DIGITS: Final = 4000


def truth_of(row: Row, task: str, fields: Fields) -> dict[str, Any]:
    r"""The ground truth of a row, in the form that the task's scorer needs.

    Its fields are in the row itself or, as in verl and TRL, under `ground_truth` or `reward_model.ground_truth`.

    - sql: `db_id`, `gold_sql` and optionally `comparison`.
    - math: `answer` (text, a number, or a list of texts: all are required, in any order) and optionally `tolerance`
      (unchanged) and `unit`. Without `answer`, the last \boxed{} of `solution` is the answer.
    - any other task: the object under `ground_truth`, unchanged.

    Raises MalformedError where a field is missing or of the wrong kind.
    """
    name, value = fields.find(row, "ground_truth")
    if value is None and isinstance(row.get("reward_model"), dict):
        name, value = "reward_model.ground_truth", row["reward_model"].get("ground_truth")
    if task not in ("sql", "math"):
        if not isinstance(value, dict):
            raise MalformedError(f"{name}: expected an object, found {show(value)}")
        try:
            json_text(value).encode("utf-8")
        except (TypeError, ValueError, RecursionError) as error:
            raise MalformedError(f"{name}: expected JSON: {error}") from None
        return value
    # A ground truth that is not an object is the answer.
    within = value if isinstance(value, dict) else {"gold_sql" if task == "sql" else "answer": value}
    layers = ({field: held for field, held in layer.items() if held is not None} for layer in (row, within))
    merged = ChainMap(*layers)
    return _sql(merged, fields) if task == "sql" else _math(merged, fields)


def comparable(truth: dict[str, Any], task: str) -> str:
    """Equal texts for equivalent ground truths: the maths answers 27, "27" and "$27.0$" are equivalent."""
    if task != "math":
        return json_text(truth)
    answers = truth["answer"] if isinstance(truth["answer"], list) else [truth["answer"]]
    return json_text({**truth, "answer": sorted(map(_plain, answers))})


def _sql(row: Row, fields: Fields) -> dict[str, Any]:
    truth = {"db_id": fields.text(row, "db_id"), "gold_sql": fields.text(row, "gold_sql")}
    name, comparison = fields.find(row, "comparison")
    if comparison is not None:
        comparisons = get_args(Comparison)
        if comparison not in comparisons:
            raise MalformedError(f"{name}: expected one of {', '.join(comparisons)}, found {show(comparison)}")
        truth["comparison"] = comparison
    return truth


def _math(row: Row, fields: Fields) -> dict[str, Any]:
    truth: dict[str, Any] = {"answer": _answer(row, fields)}
    name, tolerance = fields.find(row, "tolerance")
    if tolerance not in (None, ""):
        if not _TOLERANCE.fullmatch(tolerance if isinstance(tolerance, str) else show(tolerance)):
            raise MalformedError(f"{name}: expected a number, not negative, such as 1e-1, found {show(tolerance)}")
        truth["tolerance"] = tolerance
    name, unit = fields.find(row, "unit")
    if unit not in (None, ""):
        truth["unit"] = text(name, unit)
    return truth


def _answer(row: Row, fields: Fields) -> Any:
    name, answer = fields.find(row, "answer")
    solution_name, solution = fields.find(row, "solution")
    if answer in (None, "") and solution is not None:
        name, answer = solution_name, last_boxed(text(solution_name, solution))
        if answer is None:
            raise MalformedError(f"{name}: expected a complete \\boxed{{}}, found {show(solution[-60:])}")
    if answer is None:
        raise fields.missing(row, "answer", "solution")
    entries = answer if isinstance(answer, list) else [answer]
    # GSM8K puts the answer after its derivation.
    finals = [entry.rsplit("####", 1)[-1] if isinstance(entry, str) else entry for entry in entries]
    answers = [_number_or_text(name, final) for final in finals]
    if fields.find(row, "is_multiple_answer")[1] is True:
        answers = [part for final in answers for part in (_parts(final) if isinstance(final, str) else [final])]
    if not answers:
        raise MalformedError(f"{name}: expected an answer, found []")
    return answers[0] if len(answers) == 1 else [str(final) for final in answers]


def _number_or_text(name: str, value: Any) -> str | int | float:
    if isinstance(value, str):
        return text(name, value).strip()
    if isinstance(value, float) and math.isfinite(value):
        return int(value) if value.is_integer() else value
    if isinstance(value, bool) or not isinstance(value, int):
        raise MalformedError(f"{name}: expected text or a number, found {show(value)}")
    if abs(value) >= 10**_MOST_DIGITS:
        raise MalformedError(f"{name}: expected a number of at most {_MOST_DIGITS} digits, found more")
    return value


def _parts(answer: str) -> list[str]:
    """The answers of a text that lists several.

    `$` signs are removed: in the datasets, a comma separates answers inside of them (`$-1,2$`) and between them.
    """
    parts = [part.strip() for part in split_at_commas(answer.replace("$", ""))]
    return parts if all(parts) else [answer]


def _plain(answer: str | int | float) -> str:
    shown = str(answer).strip("$ ")
    number = _DECIMAL.fullmatch(shown)
    if number is None:
        return shown
    sign, whole, fraction = number.groups(default="")
    return f"{sign}{whole or 0}.{fraction.rstrip('0')}"
