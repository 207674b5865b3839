"""The examples run and print what their docstrings say."""

import ast
import json
import re
import runpy
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from dphrl.cli import main
from dphrl.config.load import read_config
from dphrl.config.places import check_files

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("name", NAMES)
def test_an_example_prints_what_its_docstring_says(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = EXAMPLES / f"{name}.py"
    monkeypatch.setattr(sys, "argv", [str(file)])
    monkeypatch.syspath_prepend(EXAMPLES)
    with suppress(SystemExit):
        runpy.run_path(str(file), run_name="__main__")
    said = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    assert "".join(f"    {line}\n" for line in capsys.readouterr().out.splitlines()) in f"{said}\n"


def test_which_remedy_names_a_file_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["which_remedy.py", "none.py:mine"])
    with pytest.raises(SystemExit, match=r"^which_remedy\.py: none\.py:mine: there is no file none\.py$"):
        runpy.run_path(str(EXAMPLES / "which_remedy.py"), run_name="__main__")


def test_the_page_lists_every_example() -> None:
    listed = re.findall(r"^\| \[([\w/.]+)\]", (EXAMPLES / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    others = ["custom_scorer/", "read_a_run.ipynb", "reasoning_gym/", "remedy.yaml", "trl/"]
    assert sorted(listed) == sorted([*(f"{name}.py" for name in NAMES), *others])


def test_the_report_of_the_example_for_trl_is_a_valid_configuration() -> None:
    config = read_config(EXAMPLES / "trl" / "report.yaml")
    check_files(config.model_copy(update={"checkpoints": {}}), ROOT)
    assert config.checkpoints == {"dph": "./out/dph-s1"}
    assert config.methods == {}


def test_the_example_of_a_remedy_asks_for_a_claim_about_stopping_early() -> None:
    file = EXAMPLES / "remedy.yaml"
    config = read_config(ROOT / "config/config.yaml", file)
    check_files(config, ROOT)
    assert set(config.methods) == {"grpo", "mine"}
    assert [claim.metric for claim in config.evaluate.claims.primary] == ["accuracy_bought"]
    assert len(file.read_text(encoding="utf-8").splitlines()) <= 20


def test_the_pair_of_reasoning_gym_has_the_published_numbers(tmp_path: Path) -> None:
    """The gain with the questions of both files, 21.7 points; the files' own scores differ by 19.1."""
    files = [EXAMPLES / "reasoning_gym" / f"{name}.json" for name in ("base", "tuned")]
    assert main(["diagnose", *map(str, files), "--threshold", "1", "--json", str(tmp_path / "d.json")]) == 0
    said = json.loads((tmp_path / "d.json").read_text(encoding="utf-8"))
    (model,) = said["models"].values()
    points = [100 * value for value in (model["coverage"]["value"], *model["coverage"]["wide"])]
    assert points == pytest.approx([21.7, 18.0, 25.3], abs=0.05)
    assert {name: len(questions) for name, questions in model["left_out"].items()} == {"base": 73, "tuned": 73}
