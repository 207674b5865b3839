"""Which engines can be spread over ranks; what a spread one draws is in tests/unit/ranks/test_ranks.py."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from dphrl.config.errors import ConfigError
from dphrl.config.load import load_config

DEFAULT = Path(__file__).resolve().parents[3] / "config" / "config.yaml"


def _loaded(engine: str, parts: int, **changes: Any) -> Any:
    data = yaml.safe_load(DEFAULT.read_text(encoding="utf-8"))
    data["engine"] = {"name": engine, "dtype": "float32"}
    del data["evaluate"]["claims"]
    data["hardware"] |= {"ranks": 4, "tensor_parallel": parts}
    return load_config(data | changes)


def test_the_ranks_are_whole_groups_of_those_that_share_an_engine() -> None:
    assert _loaded("vllm", 2).hardware.tensor_parallel == 2
    message = r"(?s)hardware\.tensor_parallel\n.*value: +3\n.*a divisor of hardware\.ranks = 4"
    with pytest.raises(ConfigError, match=message):
        _loaded("vllm", 3)


def test_where_nothing_is_trained_ranks_do_not_matter() -> None:
    assert _loaded("vllm", 3, methods={}).hardware.tensor_parallel == 3


def test_the_transformers_engine_cannot_be_spread() -> None:
    with pytest.raises(ConfigError, match=r"(?s)hardware\.tensor_parallel\n.*1: only vllm can spread an engine"):
        _loaded("transformers", 2)
