"""Parts of a sampling job: what they may be reused for, and that they do not change the samples."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from engine_suite import Policy, requests
from polars.testing import assert_frame_equal

from dphrl.policy.engine import Engine
from dphrl.policy.requests import REQUESTS_PER_PART, Request, rollout_frame
from dphrl.policy.sampling_job import Parts
from dphrl.store.files import parts_folder, remove_parts

# Eight prompts with three samples each.
ASKED = requests(24)
PROMPTS = {"paths": ["prompts/train.parquet"], "digest": "1"}
FOOTER = {"stage": "sample", "config": {"plan": {"n": 3}}, "code": "c0de", "inputs": {"prompts": PROMPTS}, "seed": 1}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return Policy.write(tmp_path_factory.mktemp("policy")).engine("transformers")


def drawn(parts: Parts, engine: Engine, most: int = 1000) -> list[str]:
    """The prompts of the missing parts that are drawn now, `most` parts of them."""
    numbers = parts.missing()[:most]
    for number in numbers:
        parts.write(number, engine.generate(parts.requests[number]))
    return list(dict.fromkeys(one.prompt_id for number in numbers for one in parts.requests[number]))


@pytest.mark.parametrize(("size", "lengths"), [(1, [3] * 8), (7, [9, 9, 6]), (REQUESTS_PER_PART, [24])])
def test_the_samples_do_not_depend_on_the_parts(tmp_path: Path, engine: Engine, size: int, lengths: list[int]) -> None:
    parts = Parts(ASKED, tmp_path / "0.parquet", FOOTER, size)
    assert [len(part) for part in parts.requests] == lengths
    drawn(parts, engine)
    whole = rollout_frame(ASKED, engine.generate(ASKED))
    # The rounding of a log-prob depends on the responses in the same batch, which is one part here.
    assert len(lengths) > 1 or parts.read().equals(whole)
    assert_frame_equal(parts.read(), whole, abs_tol=1e-5, rel_tol=0)
    exact = pl.exclude("sampler_logprobs")
    assert parts.read().select(exact).equals(whole.select(exact))


def test_an_interrupted_job_draws_the_rest_and_ends_in_the_same_bits(tmp_path: Path, engine: Engine) -> None:
    undisturbed, output = Parts(ASKED, tmp_path / "1.parquet", FOOTER, 7), tmp_path / "0.parquet"
    drawn(undisturbed, engine)
    assert drawn(Parts(ASKED, output, FOOTER, 7), engine, most=2) == ["p0", "p1", "p2", "p3", "p4", "p5"]
    again = Parts(ASKED, output, FOOTER, 7)
    assert drawn(again, engine) == ["p6", "p7"]
    assert again.read().equals(undisturbed.read())
    remove_parts(output)
    assert not parts_folder(output).exists()


@pytest.mark.parametrize(
    ("asked", "footer"),
    [
        (ASKED, {**FOOTER, "config": {"plan": {"n": 4}}}),
        ([replace(one, seed=one.seed + 1) for one in ASKED], FOOTER),
        # Another shard, where other prompts have the same numbers of parts.
        (requests(48)[24:], FOOTER),
    ],
)
def test_parts_of_another_job_are_not_used(
    tmp_path: Path, engine: Engine, asked: list[Request], footer: dict[str, Any]
) -> None:
    drawn(Parts(ASKED, tmp_path / "0.parquet", FOOTER, 7), engine)
    others = Parts(asked, tmp_path / "0.parquet", footer, 7)
    assert others.missing() == [0, 1, 2]
    drawn(others, engine)
    assert others.read().equals(Parts(asked, tmp_path / "0.parquet", footer, 7).read())
    assert Parts(ASKED, tmp_path / "0.parquet", FOOTER, 7).missing() == [0, 1, 2]


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.write_bytes(file.read_bytes()[:-100]),
        lambda file: file.unlink(),
        lambda file: file.with_name("1.parquet").replace(file),
    ],
    ids=["truncated", "missing", "another part"],
)
def test_a_damaged_part_is_drawn_again(tmp_path: Path, engine: Engine, damage: Callable[[Path], None]) -> None:
    parts = Parts(ASKED, tmp_path / "0.parquet", FOOTER, 7)
    drawn(parts, engine)
    before = parts.read()
    damage(parts_folder(tmp_path / "0.parquet") / "0.parquet")
    assert 0 in parts.missing()
    drawn(parts, engine)
    assert parts.read().equals(before)
