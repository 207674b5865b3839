"""How the samples of a file were drawn, as far as the file says it."""

import re
from pathlib import Path
from typing import Any, Final

from pydantic_core import from_json

from dphrl.sample_files.fields import Field
from dphrl.sample_files.formats import QWEN_MATH, VERIFIERS, Format
from dphrl.sample_files.records import Record

# test_qwen25-math-cot_-1_seed0_t0.6_s0_e-1.jsonl
_QWEN_NAME: Final = re.compile(r"_seed\d+_t(\d+(?:\.\d+)?)_s\d+_e-?\d+$")


def settings_of(path: Path, known: Format, record: Record) -> dict[str, str]:
    """temperature, top_p, max_tokens, grader and model, those that are there.

    They are in the first record, for verifiers in metadata.json in the file's folder, and for Qwen2.5-Math the
    temperature is in the file's name.
    """
    source = _metadata(path.with_name("metadata.json")) if known is VERIFIERS else record
    found = {name: Field(names).find(source) for name, names in known.settings.items()}
    named = _QWEN_NAME.search(path.stem)
    if known is QWEN_MATH and named:
        found["temperature"] = named[1]
    return {name: str(value) for name, value in found.items() if isinstance(value, str | int | float)}


def _metadata(path: Path) -> dict[str, Any]:
    """The file's content; empty where there is none, as nothing but a comparison of settings depends on it."""
    try:
        content = from_json(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
