"""`dphrl init`: the configuration that it writes passes the checks of the workflow; what it cannot do, it says."""

import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from published import DATA, LLAMA_8B
from tiny_models import write_tokenizer

from dphrl.cli import main
from dphrl.config.config import Config
from dphrl.config.load import read_config
from dphrl.config.notices import strengths
from dphrl.config.places import check_files
from dphrl.plan.describe import check_fits

LARGE = LLAMA_8B | {"max_position_embeddings": 131072}
SMALL = LLAMA_8B | {"num_hidden_layers": 2, "hidden_size": 64, "vocab_size": 512, "max_position_embeddings": 8192}
QUESTION = {"question": "How many?"}


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with one question, a small model that has a chat template, and a database."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "my.jsonl", [{**QUESTION, "answer": 7}])
    write_model(tmp_path / "model", SMALL)
    (tmp_path / "database/school").mkdir(parents=True)
    with sqlite3.connect(tmp_path / "database/school/school.sqlite") as database:
        database.execute("CREATE TABLE pupils (name TEXT)")
    return tmp_path


def write_model(folder: Path, config: dict[str, Any], *, chat: bool = True) -> None:
    """A model without weights; each character of a prompt is a token."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    write_tokenizer(folder)
    if chat:
        (folder / "chat_template.jinja").write_text("{% for message in messages %}{{ message.content }}{% endfor %}")


def init(*arguments: str) -> Config:
    """The configuration that the command writes, checked as the Snakefile does."""
    assert main(["init", "--no-draw", *arguments]) == 0
    (written,) = Path().glob("*.yaml")
    config = read_config(written)
    check_files(config, Path())
    check_fits(config, Path())
    return config


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["init", "--no-draw", *arguments]) == 2
    assert not [*Path().glob("*.yaml")]
    return capsys.readouterr().err


# Other names of fields: tests/unit/data/test_prepare.py.
@pytest.mark.parametrize(
    ("row", "task"),
    [
        ({"messages": [{"role": "user", "content": "How many?"}], "answer": 7}, "math"),
        ({"problem": "How many?", "solution": r"It is \boxed{7}.", "level": "Level 1"}, "math"),
        ({**QUESTION, "db_id": "school", "SQL": "SELECT 1", "evidence": "", "difficulty": "simple"}, "sql"),
    ],
)
def test_the_task_and_the_fields_of_a_format_are_found(row: dict[str, Any], task: str, folder: Path) -> None:
    write(folder / "my.jsonl", [row])
    config = init("--data", "my.jsonl", "--model", "model")
    assert config.run == "my"
    assert config.datasets["train"].model_dump(include={"task", "source", "fields"}) == {
        **{"task": task, "source": "my.jsonl", "fields": {}}
    }
    assert config.evaluate.datasets == ("train",)


PUBLISHED = {
    "math_eval/olympiadbench/test.jsonl": "math",
    "math_train/dapo_math_17k.parquet": "math",
    "text2sql/spider/dev.json": "sql",
}


@pytest.mark.skipif(not DATA.is_dir(), reason="the shared data is not there; set DPHRL_TEST_DATA")
@pytest.mark.parametrize(
    "source", [pytest.param(name, marks=[pytest.mark.full] * name.startswith("math_train")) for name in PUBLISHED]
)
def test_published_datasets_need_no_fields(source: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = init("--data", str(DATA / source), "--model", "model", "--out", "published.yaml")
    assert (config.datasets["train"].task, config.datasets["train"].fields) == (PUBLISHED[source], {})
    counts = re.search(r": (\d+) rows, task \w+; (\S+) prompts", capsys.readouterr().out)
    assert counts
    # Some of DAPO's are there twice.
    assert int(counts[2].replace(",", "")) >= 0.95 * int(counts[1])


def test_fifty_rows_get_steps_and_lengths_that_they_and_the_model_allow(folder: Path) -> None:
    write(folder / "my.jsonl", [{"question": f"What is {n} + 1?", "answer": n + 1} for n in range(50)])
    config = init("--data", "my.jsonl", "--model", "model")
    train = config.train
    assert (train.prompts_per_step, train.rehearsal_per_step, train.steps) == (8, 16, 16)
    assert 2 * 50 <= train.steps * train.prompts_per_step <= 4 * 50
    assert (config.engine.max_model_len, config.prompts.max_tokens, train.max_tokens) == (2176, 128, 2048)


def test_mathematics_gets_the_papers_values_for_it(folder: Path) -> None:
    write(folder / "my.jsonl", [{**QUESTION, "answer": 7}] * 1600)
    config = init("--data", "my.jsonl", "--model", "model")
    assert (config.partition.pef_min_correct, config.partition.drop_all_wrong) == (6, True)
    assert {plan["max_tokens"] for plan in config.sampling.model_dump().values()} == {2048}
    assert (config.sampling.presample.temperature, config.sampling.evaluate.temperature) == (1.0, 0.6)
    assert (config.train.lr, config.train.max_tokens, config.train.prompts_per_step) == (2e-7, 2048, 128)
    # 8 passes of 12.5 steps, in 8 segments.
    assert (config.train.steps, config.train.segment_steps, config.train.eval_every) == (96, 12, 24)


def test_a_short_model_without_a_template_on_a_cpu(folder: Path) -> None:
    write_model(folder / "tiny", SMALL | {"max_position_embeddings": 256}, chat=False)
    config = init("--data", "my.jsonl", "--model", "tiny", "--cpu")
    assert (config.prompts.template, config.prompts.max_tokens, config.engine.max_model_len) == ("plain", 128, 256)
    lengths = {plan["max_tokens"] for plan in config.sampling.model_dump().values()}
    assert {config.train.max_tokens, *lengths} == {128}
    assert (config.engine.dtype, config.train.dtype, config.hardware.gpu_gib) == ("float32", "float32", None)
    assert config.engine.name == "transformers"


def test_limits_hold_for_the_longest_prompt_of_all_rows_or_the_report_counts_the_others(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of 300 questions the last 29 are long; of the tests one is longer."""
    write_model(folder / "tiny", SMALL | {"max_position_embeddings": 1024})
    write(folder / "my.jsonl", [{"question": f"{n}" + "?" * 200 * (n > 270), "answer": 7} for n in range(300)])
    config = init("--data", "my.jsonl", "--model", "tiny")
    assert (config.prompts.max_tokens, config.train.max_tokens) == (320, 704)
    assert "are longer than" not in capsys.readouterr().out
    (folder / "my.yaml").unlink()
    write(folder / "test.jsonl", [{"question": "?" * 600, "answer": 7}])
    config = init("--data", "my.jsonl", "--model", "tiny", "--test", "test.jsonl")
    assert (config.prompts.max_tokens, config.train.max_tokens) == (704, 320)
    (folder / "my.yaml").unlink()
    write_model(folder / "short", SMALL | {"max_position_embeddings": 256})
    config = init("--data", "my.jsonl", "--model", "short")
    assert (config.prompts.max_tokens, config.train.max_tokens) == (192, 64)
    assert "  29 are longer than prompts.max_tokens, 192" in capsys.readouterr().out


def test_the_rehearsal_has_the_strength_that_kept_coverage(folder: Path) -> None:
    config = init("--data", "my.jsonl", "--model", "model")
    demo = read_config(Path(__file__).resolve().parents[3] / "config/experiments/multi-style.yaml")
    (strength,) = strengths(config.methods["dph_js"], config.train)
    assert strength == "divergence on stored responses of weight 0.2 (policy loss: 1), strength 0.1"
    assert [strength] == [*strengths(demo.methods["dph_js"], demo.train)]
    assert "0.2 / 8" in (folder / "my.yaml").read_text()


@pytest.mark.parametrize(
    ("gpu_gib", "keys"), [(80, {"ranks": 4}), (40, {"ranks": 8, "kv_cache_gib": 12, "offload_optimizer": True})]
)
def test_a_large_model_gets_the_cheapest_keys_with_which_it_fits(
    gpu_gib: int, keys: dict[str, Any], folder: Path
) -> None:
    write_model(folder / "large", LARGE)
    write(folder / "my.jsonl", [{**QUESTION, "answer": 7, "n": n} for n in range(1000)])
    config = init("--data", "my.jsonl", "--model", "large", f"--gpu-gib={gpu_gib}")
    expected = {"gpu_gib": gpu_gib, "gradient_checkpointing": True, "zero_stage": 3, **keys}
    assert config.hardware.model_dump(exclude_unset=True) == expected
    assert config.train.prompts_per_step == 128


def test_a_model_that_fits_on_no_number_of_gpus_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_model(folder / "large", LARGE)
    message = refused(capsys, "--data", "my.jsonl", "--model", "large", "--gpu-gib", "4")
    assert "a model that can be trained on GPUs of 4 GiB, or a larger --gpu-gib" in message


def test_a_custom_task_has_its_scorer_and_other_questions_are_evaluated(folder: Path) -> None:
    example = Path(__file__).resolve().parents[3] / "examples/custom_scorer"
    for name in ("questions.jsonl", "scorer.py"):
        (folder / name).write_bytes((example / name).read_bytes())
    (folder / "test.jsonl").write_bytes((example / "questions.jsonl").read_bytes())
    given = ["--data", "questions.jsonl", "--model", "model", "--task", "one_of", "--scorer", "scorer.py"]
    config = init(*given, "--test", "test.jsonl", "--field", "question=ask", "--field", "ground_truth=expected")
    assert config.datasets["train"].fields == {"question": "ask", "ground_truth": "expected"}
    assert config.scoring.custom["one_of"].source == "scorer.py"
    assert config.evaluate.datasets == ("test",)


@pytest.mark.parametrize(
    ("option", "plan", "machine"),
    [("--cpu", "", "--cores 2"), ("--gpu-gib=141", " --slots 1", "--profile profiles/gpu-node")],
)
def test_the_next_commands_are_those_of_the_machine(
    option: str, plan: str, machine: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    init("--data", "my.jsonl", "--model", "model", "--out", "my run.yaml", option)
    lines = capsys.readouterr().out.partition("Next:\n")[2].splitlines()
    assert [line.partition("#")[0].strip() for line in lines] == [
        f".venv/bin/dphrl plan 'my run.yaml'{plan}",
        ".venv/bin/dphrl look 'my run.yaml'",
        f".venv/bin/snakemake {machine} --configfile 'my run.yaml'",
    ]


def test_a_file_that_is_there_stays(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "my.yaml").write_text("mine")
    assert main(["init", "--data", "my.jsonl", "--model", "model"]) == 2
    assert "my.yaml is there already: name another file with --out" in capsys.readouterr().err
    assert (folder / "my.yaml").read_text() == "mine"
    assert main(["init", "--data", "my.jsonl", "--model", "model", "--out", "no/my.yaml"]) == 2
    assert "no/my.yaml is in no folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rows", "more", "message"),
    [
        ([], (), "my.jsonl: found no rows"),
        ([], ("--data", "none.jsonl"), "none.jsonl: there is no such file; expected questions in .jsonl"),
        (
            [{"chat": "How many?", "seven": 7}],
            (),
            "my.jsonl: its fields are chat, seven, and no task has them (sql: expected db_id, found only 'chat, seven';"
            " math: expected answer or solution, found only 'chat, seven'). Name them, for "
            "instance --field question=THEIRS",
        ),
        (
            [{"chat": "How many?", "answer": 7}],
            (),
            "my.jsonl: none of 1 rows is a prompt (1 malformed); row 0: expected",
        ),
        (
            [{**QUESTION, "db_id": "school", "gold_sql": "SELECT 1"}],
            ("--databases", "none"),
            "my.jsonl: expected its databases, none/<db_id>/<db_id>.sqlite: name their folder with --databases",
        ),
        (
            [{**QUESTION, "answer": 7}],
            ("--model", "models/Qwen/none"),
            "allowed: a model of the hub (ORG/NAME), or a folder",
        ),
        ([{**QUESTION, "answer": 7}], ("--field", "asked=chat"), "datasets.train.fields.asked\n"),
    ],
)
def test_an_error_names_the_file_and_what_was_expected(
    rows: list[dict[str, Any]], more: tuple[str, ...], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder / "my.jsonl", rows)
    assert message in refused(capsys, "--data", "my.jsonl", "--model", "model", *more)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--task", "one_of"), "--task NAME and --scorer FILE belong together"),
        (("--scorer", "my.py"), "--task NAME and --scorer FILE belong together"),
        (("--field", "question"), "argument --field: 'question': expected NAME=VALUE"),
    ],
)
def test_options_that_do_not_belong_together_are_a_usage_error(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["init", "--data", "my.jsonl", "--model", "model", *arguments])
    assert message in capsys.readouterr().err
