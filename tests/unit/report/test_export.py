"""The exported files, read back: values exact, fields as the trainers want them, tokens and judge those of the run."""

import importlib.util
import json
import shutil
import sqlite3
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import polars as pl
import pytest
from raw_tables import flip_byte
from safetensors.numpy import load_file
from small_run import FINAL, INDEX, TENSORS, SmallRun
from tiny_models import write_tokenizer

from dphrl.cli import main
from dphrl.data.tokens import load_tokenizer
from dphrl.scoring.factory import make_scorer
from dphrl.store.catalogue import SCHEMAS
from dphrl.store.files import list_databases, sha256_file
from dphrl.store.manifest import folder_of
from dphrl.store.parquet import write_table

ROOT = Path(__file__).resolve().parents[3]
PROMPTS, GOLD = "prompts/train.parquet", "gold/train.parquet"
# Adds what no tokenizer of plain text does.
CHAT = "{% for message in messages %}Q{{ message.content }}{% endfor %}{% if add_generation_prompt %}A{% endif %}"


@pytest.fixture
def run(exportable: Path, tmp_path: Path) -> SmallRun:
    """A copy that a test may change."""
    shutil.copytree(exportable, tmp_path / "run", symlinks=True)
    return SmallRun(tmp_path / "run")


def _export(run: SmallRun, *options: str, code: int = 0) -> Path:
    out = run.root.parent / "out"
    assert main(["export", str(run.root), "--out", str(out), *options]) == code
    assert out.exists() == (code == 0)
    return out


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def _reward(out: Path) -> ModuleType:
    """The exported reward.py as a trainer imports it."""
    spec = importlib.util.spec_from_file_location("exported_reward", out / "reward.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _exp(run: SmallRun) -> pl.DataFrame:
    """The questions of D_exp."""
    chosen = run.read(FINAL).filter(subset="exp").select("prompt_id")
    return chosen.join(run.read(PROMPTS), on="prompt_id").join(run.read(GOLD), on="prompt_id").sort("prompt_id")


def test_stored_responses_are_exact(run: SmallRun) -> None:
    rows = _lines(_export(run) / "rehearsal.jsonl")
    tensors = load_file(run.root / TENSORS)
    assert [row["prompt_id"] for row in rows] == run.read(INDEX)["prompt_id"].to_list()
    ids = [token for row in rows for token in (*row["prompt_ids"], *row["response_ids"])]
    assert ids == tensors["token_ids"].tolist()
    for name, stored in (("ref_logprobs", "logprobs"), ("topk_ids", "topk_ids"), ("topk_logprobs", "topk_logprobs")):
        read = np.concatenate([np.array(row[name], dtype=tensors[stored].dtype) for row in rows])
        assert read.tobytes() == tensors[stored].tobytes()


def test_a_question_has_the_fields_of_trl_and_of_verl(run: SmallRun, capsys: pytest.CaptureFixture[str]) -> None:
    rows = pl.read_parquet(_export(run) / "prompts.parquet").to_dicts()
    assert len(rows) == 2
    assert rows == [
        {
            "prompt_id": row["prompt_id"],
            "prompt": json.loads(row["messages"]),
            "thought_open": False,
            "ground_truth": row["ground_truth"],
            "data_source": "train",
            "reward_model": {"style": "rule", "ground_truth": row["ground_truth"]},
            "extra_info": {"index": row["source_index"], "thought_open": False},
        }
        for row in _exp(run).iter_rows(named=True)
    ]
    out = capsys.readouterr().out
    assert "2 questions of D_exp, 4 stored responses of D_pef (train, draw main)" in out
    assert "other tokens" not in out


def test_the_template_of_plain_prompts_gives_the_tokens_of_the_run(run: SmallRun) -> None:
    out = _export(run)
    template = (out / "chat_template.jinja").read_text("utf-8")
    prompts = pl.read_parquet(out / "prompts.parquet")["prompt"].to_list()
    tokenizer = write_tokenizer(run.root.parent / "tokenizer")
    made = tokenizer.apply_chat_template(prompts, chat_template=template, add_generation_prompt=True)
    assert made["input_ids"] == _exp(run)["prompt_token_ids"].to_list()


def test_a_chat_template_is_the_base_s_own_and_prompts_with_other_tokens_are_counted(
    run: SmallRun, capsys: pytest.CaptureFixture[str]
) -> None:
    base = folder_of(run.root / "policies" / "base.json")
    tokenizer = load_tokenizer(base)
    tokenizer.chat_template = CHAT
    tokenizer.save_pretrained(base)
    run.change_footer(PROMPTS, lambda footer: footer["config"]["prompts"].update(template="chat"))
    # The run's tokens are those of plain text.
    out = _export(run)
    assert not (out / "chat_template.jinja").exists()
    assert "2 of these questions get other tokens in the trainer" in capsys.readouterr().out


def _retask(run: SmallRun, task: str, scorer: dict[str, Any], truth: dict[str, Any]) -> None:
    """The run with another task, scorer and ground truth."""
    run.rewrite(GOLD, run.read(GOLD).with_columns(ground_truth=pl.lit(json.dumps(truth))))
    run.change_footer(GOLD, lambda footer: footer["config"].update(task=task, scorer=scorer))


def _agree(out: Path, texts: list[str], expected: list[float]) -> None:
    """Both reward functions give these rewards."""
    module = _reward(out)
    truth = pl.read_parquet(out / "prompts.parquet")["ground_truth"][0]
    columns = {"ground_truth": [truth] * len(texts), "thought_open": [False] * len(texts)}
    assert module.reward(completions=texts, **columns, prompts=[], trainer_state=None) == expected
    messages = [[{"role": "assistant", "content": text}] for text in texts]
    assert module.reward(messages, **columns) == expected
    extra = {"index": 0, "thought_open": False}
    assert [module.compute_score("train", text, truth, extra) for text in texts] == expected


def test_answers_to_mathematics_are_judged_as_in_the_run(run: SmallRun) -> None:
    settings = {"answer": "final", "timeout_s": 5.0, "memory_mib": 1024}
    _retask(run, "math", settings, {"answer": "7"})
    texts = ["so 14/2 = \\boxed{7}", "\\boxed{8}", "#### 7", "none"]
    with make_scorer("math", settings) as scorer:
        rewards = [verdict.reward for verdict in scorer.score(texts, [{"answer": "7"}] * 4)]
    assert rewards == [1.0, 0.0, 1.0, 0.0]
    _agree(_export(run), texts, rewards)


def _database(folder: Path) -> Path:
    (folder / "shop").mkdir(parents=True)
    with sqlite3.connect(folder / "shop" / "shop.sqlite") as connection:
        connection.execute("CREATE TABLE product (name TEXT, price INTEGER)")
        connection.executemany("INSERT INTO product VALUES (?, ?)", [("pen", 2), ("pot", 9)])
    return folder


def test_sql_is_judged_on_the_databases_of_the_run(run: SmallRun, capsys: pytest.CaptureFixture[str]) -> None:
    folder = _database(run.root.parent / "databases")
    _retask(run, "sql", {"answer": "bare", "repair": "always"}, {"db_id": "shop", "gold_sql": "SELECT 'pen'"})
    listed = "databases/train.parquet"
    write_table(SCHEMAS["databases"].frame(list_databases(folder, 1)), "databases", run.root / listed, {})
    run.change_footer(GOLD, lambda footer: footer["inputs"].update(databases={"paths": [listed], "digest": "0" * 64}))
    _export(run, code=2)
    assert "name their folder, as in the run: --databases DIR" in capsys.readouterr().err
    empty = run.root.parent / "empty"
    _export(run, "--databases", str(empty), code=2)
    assert f"{empty}/shop/shop.sqlite: missing, or not the database of the run" in capsys.readouterr().err
    out = _export(run, "--databases", str(folder))
    texts = ["SELECT name FROM product WHERE price < 5", "SELECT name FROM product", "DROP TABLE product"]
    _agree(out, texts, [1.0, 0.0, 0.0])


def test_the_embedded_world_needs_no_folder_of_databases(run: SmallRun) -> None:
    _database(run.root / "toy" / "databases")
    _retask(run, "sql", {"answer": "bare"}, {"db_id": "shop", "gold_sql": "SELECT price FROM product"})
    _agree(_export(run), ["SELECT price FROM product", "SELECT 2"], [1.0, 0.0])


def test_a_custom_scorer_goes_along_and_must_be_that_of_the_run(
    run: SmallRun, capsys: pytest.CaptureFixture[str]
) -> None:
    (source,) = (ROOT / "examples" / "custom_scorer").glob("*.py")
    _retask(run, "one_of", {"options": {"ignore_case": False}}, {"accepted": ["Rome"]})
    digest = sha256_file(source)
    run.change_footer(GOLD, lambda footer: footer["inputs"].update(scorer={"paths": [source.name], "digest": digest}))
    _export(run, code=2)
    assert "the task one_of has a custom scorer; name its file: --scorer FILE" in capsys.readouterr().err
    _export(run, "--scorer", str(ROOT / "examples" / "score_answers.py"), code=2)
    assert "not the scorer of the run" in capsys.readouterr().err
    answers, rewards = ["It is\nRome.", "rome", ""], [1.0, 0.0, 0.0]
    _agree(_export(run, "--scorer", str(source)), answers, rewards)


def test_what_is_missing_is_named_with_the_next_step(run: SmallRun, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(*options: str) -> str:
        _export(run, *options, code=2)
        return capsys.readouterr().err

    assert "draws/s9/reference/index.parquet: no such file" in refused("--draw", "s9")
    everything = run.read(FINAL)
    run.rewrite(FINAL, everything.with_columns(subset=pl.lit("pef"), reference_sample=pl.lit(0, pl.Int32)))
    assert "made from another" in refused()
    shutil.rmtree(run.root)
    assert "make the stored responses of this draw first: make run CONFIG=" in refused()
    (run.root.parent / "out").mkdir()
    (run.root.parent / "out" / "kept").touch()
    assert main(["export", str(run.root), "--out", str(run.root.parent / "out")]) == 2
    assert "not an empty folder" in capsys.readouterr().err


def test_damaged_tensors_are_refused_and_nothing_is_written(run: SmallRun, capsys: pytest.CaptureFixture[str]) -> None:
    flip_byte(run.root / TENSORS)
    assert main(["export", str(run.root), "--out", str(run.root.parent / "out")]) == 2
    assert "it is not the file that was written" in capsys.readouterr().err
    assert [*(run.root.parent / "out").iterdir()] == []
