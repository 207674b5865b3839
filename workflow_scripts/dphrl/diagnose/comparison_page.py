"""A comparison as one HTML page without network, with all text of the files escaped, and as JSON with stable keys."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import polars as pl

from dphrl.data.sample_files import SampleFile
from dphrl.diagnose import tables as shown
from dphrl.diagnose.comparison import Comparison, OfModel
from dphrl.diagnose.joined import known_as, shown_as
from dphrl.evaluation.names import BASE
from dphrl.report.render import render
from dphrl.text import margin_in_points, visible

_QUESTIONS = 10
_ANSWERS = 3
_CHARACTERS = 2_000
_CAPTION = (
    "Share of questions solved by at least one of k samples, with 95 % bands over questions. A model that wins at k = 1"
    " and loses at large k has narrowed: it repeats one answer where the base model had several."
)


def figure(comparison: Comparison) -> Any:
    """The pass@k curves, as an altair chart."""
    # Slow to import.
    from dphrl.report.figures import draw

    # Models on other questions have another curve of the base.
    place = pl.int_range(pl.len()).over("method", "seed", "k")
    name = pl.when(place > 0).then(pl.format("{} ({})", "method", place + 1)).otherwise("method")
    return draw("passk", comparison.tables["passk"].with_columns(method=name)).properties(description=_CAPTION)


def page(comparison: Comparison, files: Mapping[str, SampleFile]) -> str:
    """The page. The same files give the same text."""
    from dphrl.report.page import vega_embed

    lost = {name: _lost(model, name) for name, model in comparison.models.items()}
    tables = {
        "Coverage": [shown.coverage(comparison), shown.kept(comparison), shown.by_base(comparison)],
        "Diversity": [shown.varied(comparison)],
    }
    filled = {heading: [table for table in group if table[2].height] for heading, group in tables.items()}
    filled = {heading: [_visible(table) for table in group] for heading, group in filled.items() if group}
    names, base = list(comparison.models), shown_as([file.path for file in files.values()])[0]
    return render(
        "diagnose.html.j2",
        title="Did the model lose its diversity?",
        lead=f"{visible(', '.join(names), '')} compared with {visible(base, '')}.",
        headings=["Diagnosis", *filled, *(["Lost questions"] if any(lost.values()) else []), "The files"],
        models={
            visible(name, ""): {
                "word": visible(model.lines[0], ""),
                "sentences": [visible(sentence, "") for sentence in [*model.lines[1:], *model.further]],
            }
            for name, model in comparison.models.items()
        },
        notes=[visible(note, "") for note in comparison.notes],
        margin=margin_in_points(comparison.margin),
        tables=filled,
        spec=figure(comparison).to_dict(),
        caption=_CAPTION,
        lost={visible(name, ""): questions for name, questions in lost.items()},
        numbers={visible(name, ""): model.lost.height for name, model in comparison.models.items()},
        files=_visible(shown.answers(comparison)),
        settings={
            visible(name, ""): {
                key: visible(value, "") for key, value in {"file": file.path.name, **file.settings}.items()
            }
            for name, file in files.items()
        },
        vega_embed=vega_embed(),
    )


def _lost(model: OfModel, name: str) -> list[dict[str, Any]]:
    """The first lost questions with answers of both models: right answers of the base, first answers of the tuned."""
    lost, own = model.lost.head(_QUESTIONS), next(iter(model.joined.tuned))
    keys = lost["prompt_id"].to_list()
    rows = model.joined.questions.filter(pl.col("prompt_id").is_in(keys))
    questions = {row["prompt_id"]: row for row in rows.iter_rows(named=True)}
    right = _answers(model.joined.rows[BASE].filter("correct"), keys)
    first = _answers(model.joined.rows[own], keys)
    return [
        {
            "id": visible(known_as(key, questions[key]["question"])[:80], ""),
            "question": _cut(questions[key]["question"] or ""),
            "gold": _cut(questions[key]["gold"] or ""),
            "solved": f"base {of_base} of {of_samples}, {visible(name, '')} 0 of {of_tuned}",
            "answers": {BASE: right.get(key, []), visible(name, ""): first.get(key, [])},
        }
        for key, of_base, of_samples, of_tuned in lost.iter_rows()
    ]


def _answers(rows: pl.DataFrame, keys: Sequence[str]) -> Mapping[str, list[dict[str, Any]]]:
    by_question: dict[str, list[dict[str, Any]]] = {}
    chosen = rows.filter(pl.col("prompt_id").is_in(list(keys))).select("prompt_id", "sample_index", "text", "correct")
    for key, index, text, correct in chosen.iter_rows():
        answers = by_question.setdefault(key, [])
        if len(answers) < _ANSWERS:
            answers.append({"index": index, "text": _cut(text), "correct": correct})
    return by_question


def _cut(text: str) -> str:
    left_out = len(text) - _CHARACTERS
    if left_out > 0:
        half = _CHARACTERS // 2
        text = f"{text[:half]}\n[{left_out:,} characters left out]\n{text[left_out + half :]}"
    return visible(text.replace("\r\n", "\n"))


def _visible(table: shown.Shown) -> shown.Shown:
    title, caption, frame = table
    rows = [[visible(str(cell), "") for cell in row] for row in frame.iter_rows()]
    return visible(title, ""), caption, pl.DataFrame(rows, schema=frame.schema, orient="row")


VERSION = 4


def document(comparison: Comparison, files: Mapping[str, SampleFile]) -> dict[str, Any]:
    """The comparison as JSON values; numbers that are not finite are null. docs/diagnose.md describes the keys."""
    models = {}
    for name, model in comparison.models.items():
        diagnosis = asdict(model.diagnosis)
        models[name] = {
            "diagnosis": diagnosis.pop("word"),
            **{key: value for key, value in diagnosis.items() if key != "policy"},
            "doubts": model.doubts,
            "varieties": [asdict(variety) for variety in model.varieties],
            "lost": model.lost.to_dicts(),
            "left_out": model.joined.left_out,
            "sentences": [*model.lines, *model.further],
        }
    values: dict[str, Any] = {
        "version": VERSION,
        "exit_code": comparison.exit_code,
        "margin": comparison.margin,
        "files": {
            name: {"path": str(file.path), "format": file.format, "settings": file.settings}
            for name, file in files.items()
        },
        "models": models,
        "notes": comparison.notes,
        "tables": {
            name: table.drop("step", "dataset", strict=False).to_dicts() for name, table in comparison.tables.items()
        },
    }
    finite: dict[str, Any] = _finite(values)
    return finite


def to_json(comparison: Comparison, files: Mapping[str, SampleFile]) -> str:
    """`document` as text: the same files give the same bytes."""
    return json.dumps(document(comparison, files), indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    """The value with null for numbers that are not finite."""
    if isinstance(value, Mapping):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
