"""The pinned files under envs/."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENVS = ROOT / "envs"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def _pins(name: str) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9-]+)==([^ ;]+)", (ENVS / f"{name}.txt").read_text(), re.MULTILINE))


def _required(extra: str) -> Iterator[str]:
    """The names that an extra asks for, those of the extras in it too."""
    for requirement in PROJECT["optional-dependencies"][extra]:
        named, extras = re.fullmatch(r"([a-z0-9-]+)(?:\[(.*)\])?.*", requirement).groups()
        if named == "dphrl":
            for other in extras.split(","):
                yield from _required(other)
        else:
            yield named


def _names(requirements: list[str]) -> set[str]:
    return {re.match(r"[a-z0-9-]+", requirement)[0] for requirement in requirements}


# torch's CPU build is not on PyPI: the Makefile installs it.
@pytest.mark.parametrize(("extra", "elsewhere"), [("cpu", {"torch"}), ("gpu", set())])
def test_an_environment_has_what_the_light_set_and_its_extra_ask_for(extra: str, elsewhere: set[str]) -> None:
    required = {*_required(extra), *_names(PROJECT["dependencies"])}
    assert {"math-verify", "sqlglot", "safetensors", "snakemake", "torch"} < required
    assert required - _pins(extra).keys() == elsewhere


def test_the_light_set_has_no_engine_and_no_scorer() -> None:
    light = _names(PROJECT["dependencies"])
    assert {"numpy", "polars", "scipy", "pydantic", "pyyaml", "jinja2", "altair"} < light
    assert light.isdisjoint({*_required("workflow"), *_required("math"), *_required("sql"), "deepspeed", "vllm"})
