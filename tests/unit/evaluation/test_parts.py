"""An evaluation in parts has the bytes of a whole one, and refuses the same."""

from pathlib import Path

import polars as pl
import pytest

from dphrl.artifacts import tables
from dphrl.artifacts.catalogue import SCHEMAS
from dphrl.artifacts.code import code_digest
from dphrl.artifacts.stage import Stage
from dphrl.config.blocks.evaluate import StyleRule
from dphrl.evaluation.classes import classes
from dphrl.evaluation.parts import evaluate_parts
from dphrl.evaluation.per_prompt import evaluate

RULES = [StyleRule(name="plain", prefix="SELECT")]
PROMPTS = 9
# One prompt whose gold is not kept, with classes that the others do not have.
DROPPED = "p4"


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "PART", 4)


def _tables(programs: bool = True, greedy: bool = True) -> dict[str, pl.DataFrame]:
    """Rollouts, verdicts, gold and prompts of a dataset, five samples for each prompt."""
    rows = [
        {
            "prompt_id": f"p{prompt}",
            "sample_index": sample,
            "seed": 1,
            "token_ids": [1],
            "sampler_logprobs": [-1.0],
            "text": [" SELECT 1", "3 + 4 = 7", "2 * 3 = 6"][(prompt + sample) % 3],
            "finish_reason": "stop",
            "verdict": "correct" if (prompt * sample) % 2 else "wrong",
            "correct": bool((prompt * sample) % 2),
            "reward": 0.0,
            "answer_class": None if sample == 3 else f"a{sample % 2}",
            "program_class": f"c{sample % 3}" if (programs and prompt in (4, 5)) or prompt == 4 else None,
            "kept": f"p{prompt}" != DROPPED,
            "ground_truth": f'{{"db_id": "d{prompt % 2}"}}',
            "task": "sql",
            "messages": "[]",
            "prompt_token_ids": [1],
            "source": "made",
            "source_index": prompt,
            "level": str(prompt % 3),
        }
        for prompt in range(PROMPTS)
        for sample in range(-1 if greedy else 0, 5)
    ]
    frame = pl.DataFrame(rows, infer_schema_length=None)
    frame = frame.with_columns(pl.lit(None, pl.String).alias(name) for name in ("extracted", "detail", "reason"))
    names = ("rollouts", "verdicts", "gold", "prompts")
    tables = {name: frame.select(*SCHEMAS[name].columns) for name in names}
    return tables | {name: tables[name].unique("prompt_id", maintain_order=True) for name in ("gold", "prompts")}


def _whole(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    gold = tables["gold"].filter("kept")
    database = pl.col("ground_truth").str.json_path_match("$.db_id")
    marks = gold.select("prompt_id", cluster=database).join(
        tables["prompts"].select("prompt_id", "level"), on="prompt_id", how="left"
    )
    rollouts, verdicts = (tables[name].join(marks, on="prompt_id", how="semi") for name in ("rollouts", "verdicts"))
    result = evaluate(rollouts, verdicts, RULES)
    for more in (classes(rollouts, verdicts), marks):
        result = result.join(more, on="prompt_id", how="left", maintain_order="left")
    return result


def _lazy(tables: dict[str, pl.DataFrame]) -> list[pl.LazyFrame]:
    return [frame.lazy() for frame in tables.values()]


@pytest.mark.parametrize("programs", [True, False])
@pytest.mark.parametrize("greedy", [True, False])
def test_the_bytes_are_those_of_the_whole_table(tmp_path: Path, programs: bool, greedy: bool) -> None:
    tables = _tables(programs, greedy)
    job = Stage("evaluate_policy", [], ["evaluation"], code_digest([], ["evaluation"]), "{}")
    for name, frame in tables.items():
        job.write(frame, name, str(tmp_path / name))
    lazy = [job.scan(name, str(tmp_path / name)) for name in tables]
    parts = list(evaluate_parts(*lazy, RULES))
    assert len(parts) > 3
    job.write_parts(parts, "evaluation", str(tmp_path / "parts"))
    whole = _whole(tables)
    job.write(whole, "evaluation", str(tmp_path / "whole"))
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()
    assert whole.height == PROMPTS - 1
    assert whole["programs"].list.len().to_list() == [5 * programs] * whole.height
    assert whole["skeletons"].list.len().to_list() == [5 * (not programs)] * whole.height


@pytest.mark.parametrize(
    ("lost", "message"),
    [
        (
            (pl.col("prompt_id") == "p7") & (pl.col("sample_index") == 4),
            r"'p7' has samples \[0, 1, 2, 3\], expected 0..4",
        ),
        ((pl.col("prompt_id") == "p7") & (pl.col("sample_index") == -1), "'p7' has no greedy response"),
        (pl.col("sample_index") >= 0, "greedy responses only"),
        (pl.col("prompt_id") != DROPPED, "no prompt to evaluate"),
    ],
)
def test_what_all_prompts_tell_is_asked_of_each_part(lost: pl.Expr, message: str) -> None:
    tables = _tables()
    tables |= {name: tables[name].filter(~lost) for name in ("rollouts", "verdicts")}
    with pytest.raises(ValueError, match=message):
        list(evaluate_parts(*_lazy(tables), RULES))


def test_a_rollout_without_a_verdict_is_named_in_a_later_part() -> None:
    tables = _tables()
    last = pl.col("prompt_id") == f"p{PROMPTS - 1}"
    with pytest.raises(ValueError, match="'p8', sample -1 has no verdict"):
        list(evaluate_parts(*_lazy(tables | {"verdicts": tables["verdicts"].filter(~last)}), RULES))
    with pytest.raises(ValueError, match="'p8', sample -1 has a verdict but no rollout"):
        list(evaluate_parts(*_lazy(tables | {"rollouts": tables["rollouts"].filter(~last)}), RULES))
