"""A comparison as one HTML page without network, with all text of the files escaped, and as JSON with stable keys."""

from collections.abc import Mapping
from typing import Any

import polars as pl
from pydantic_core import to_json as json_of

from dphrl.diagnose import comparison_tables as shown
from dphrl.diagnose.comparison import Comparison, ModelComparison
from dphrl.diagnose.joined import shown_as
from dphrl.evaluation.names import BASE
from dphrl.report.render import render
from dphrl.report.sample_pages import cut
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


def page(comparison: Comparison) -> bytes:
    """The page. The same files give the same text."""
    from dphrl.report.page import vega_embed

    lost = {name: _lost(model, name) for name, model in comparison.models.items()}
    tables = {
        "Coverage": [shown.coverage(comparison), shown.kept(comparison), shown.by_base(comparison)],
        "Diversity": [shown.varied(comparison)],
    }
    filled = {heading: [table for table in group if table.rows] for heading, group in tables.items()}
    filled = {heading: group for heading, group in filled.items() if group}
    base = shown_as([file.path for file in comparison.files.values()])[0]
    values: dict[str, Any] = _visible(
        {
            "title": "Did the model lose its diversity?",
            "lead": f"{', '.join(comparison.models)} compared with {base}.",
            "headings": ["Diagnosis", *filled, *(["Lost questions"] if any(lost.values()) else []), "The files"],
            "models": {name: [*model.lines, *model.further] for name, model in comparison.models.items()},
            "notes": comparison.notes,
            "margin": margin_in_points(comparison.margin),
            "tables": filled,
            "lost": lost,
            "numbers": {name: model.lost.height for name, model in comparison.models.items()},
            "files": shown.answers(comparison),
            "settings": {name: {"file": file.path.name, **file.settings} for name, file in comparison.files.items()},
        }
    )
    html = render("diagnose.html.j2", **values, spec=figure(comparison).to_dict(), vega_embed=vega_embed())
    return html.encode("utf-8", errors="replace")


def _lost(model: ModelComparison, name: str) -> list[dict[str, Any]]:
    """The first lost questions with answers of both models: right answers of the base, first answers of the tuned."""
    lost = model.lost.head(_QUESTIONS)
    questions = lost.join(model.joined.questions, on="prompt_id", maintain_order="left")
    own = list(model.joined.rows)[1]
    right = _answers(model.joined.rows[BASE].filter("correct"), lost)
    first = _answers(model.joined.rows[own], lost)
    return [
        {
            "id": row["prompt_id"][:80],
            "question": cut(row["question"] or "", _CHARACTERS),
            "gold": cut(row["gold"] or "", _CHARACTERS),
            "solved": f"base {row['base_right']} of {row['base_samples']}, {name} 0 of {row['tuned_samples']}",
            "answers": {BASE: right[row["prompt_id"]], name: first[row["prompt_id"]]},
        }
        for row in questions.iter_rows(named=True)
    ]


def _answers(rows: pl.DataFrame, lost: pl.DataFrame) -> dict[str, list[dict[str, Any]]]:
    """The first answers to each lost question."""
    texts = pl.col("text").map_elements(lambda text: cut(text, _CHARACTERS), pl.String)
    here = rows.join(lost, on="prompt_id", how="semi").group_by("prompt_id").head(_ANSWERS).with_columns(texts)
    return {str(key): answers.sort("sample_index").to_dicts() for (key,), answers in here.group_by("prompt_id")}


def _visible(value: Any) -> Any:
    """The value with all its texts made visible."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {_visible(key): _visible(inner) for key, inner in value.items()}
    return [_visible(inner) for inner in value] if isinstance(value, list | tuple) else value


VERSION = 4


def to_json(comparison: Comparison) -> bytes:
    """The comparison as JSON; numbers that are not finite are null. docs/diagnose.md names the keys of the top level.

    A model has its word as `diagnosis`, the other attributes of `Diagnosis`, and those of `ModelComparison` that can be
    written: doubts, varieties, lost. `left_out` lists by file the questions that some other file lacks, `sentences` the
    lines of the diagnosis. The same files give the same bytes.
    """
    models = {}
    for name, model in comparison.models.items():
        diagnosis = {key: value for key, value in vars(model.diagnosis).items() if key not in ("word", "policy")}
        models[name] = {
            "diagnosis": model.diagnosis.word,
            **diagnosis,
            "doubts": model.doubts,
            "varieties": model.varieties,
            "lost": model.lost.to_dicts(),
            "left_out": model.joined.left_out,
            "sentences": [*model.lines, *model.further],
        }
    values = {
        "version": VERSION,
        "exit_code": comparison.exit_code,
        "margin": comparison.margin,
        "files": {
            name: {"path": visible(str(file.path), ""), "format": file.format, "settings": file.settings}
            for name, file in comparison.files.items()
        },
        "models": models,
        "notes": comparison.notes,
        "tables": {
            name: table.drop("step", "dataset", strict=False).to_dicts() for name, table in comparison.tables.items()
        },
    }
    return json_of(values, indent=1, inf_nan_mode="null") + b"\n"
