"""A diagnosis for machines: keys that stay."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from dphrl.diagnose.diagnosis import Diagnosis
from dphrl.diagnose.sentences import sentences
from dphrl.diagnose.verdict import EXIT
from dphrl.sample_files.samples import SampleFile

VERSION = 1


def document(found: Diagnosis, files: Sequence[SampleFile]) -> dict[str, Any]:
    """The diagnosis as JSON values; numbers that are not known are null. docs/diagnose.md describes the keys."""
    words = {code: word for word, code in EXIT.items()}
    models = {}
    for name, model in found.models.items():
        verdict = asdict(model.verdict)
        models[name] = {
            "verdict": verdict.pop("word"),
            **{key: value for key, value in verdict.items() if key != "policy"},
            "qualified": model.qualified,
            "varieties": [asdict(one) for one in model.varieties],
            "lost": [one._asdict() for one in model.lost],
            "sentences": sentences(model),
        }
    given: dict[str, Any] = {
        "version": VERSION,
        "verdict": words[found.exit_code],
        "exit_code": found.exit_code,
        "k": found.k,
        "margin": found.margin,
        "files": {
            name: {"path": str(file.path), "format": file.format, "settings": file.settings}
            for name, file in zip(found.joined.rows, files, strict=True)
        },
        "models": models,
        "left_out": found.joined.left_out,
        "notes": found.notes,
        "tables": {
            name: table.drop("seed", "step", "dataset", strict=False).to_dicts() for name, table in found.tables.items()
        },
    }
    known: dict[str, Any] = _known(given)
    return known


def to_json(found: Diagnosis, files: Sequence[SampleFile]) -> str:
    """`document` as text: the same files give the same bytes."""
    return json.dumps(document(found, files), indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def _known(value: Any) -> Any:
    """The value with null for numbers that are not finite."""
    if isinstance(value, Mapping):
        return {key: _known(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_known(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
