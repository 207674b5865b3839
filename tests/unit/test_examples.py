"""The examples run, print what their docstrings say, and that is what a computation by hand gives."""

import ast
import json
import math
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from scipy.stats import t

from dphrl.cli import main
from dphrl.config.load import read_config
from dphrl.config.places import check_files

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))


@cache
def printed(name: str) -> str:
    command = [sys.executable, str(EXAMPLES / f"{name}.py")]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def numbers(name: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+\.\d+", printed(name))]


@pytest.mark.parametrize("name", NAMES)
def test_an_example_prints_what_its_docstring_says(name: str) -> None:
    text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    said = ast.get_docstring(ast.parse(text)) or ""
    assert "".join(f"    {line}\n" for line in printed(name).splitlines()) in f"{said}\n"


def test_the_page_lists_every_example() -> None:
    listed = re.findall(r"^\| \[([\w/.]+)\]", (EXAMPLES / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted([*(f"{name}.py" for name in NAMES), "custom_scorer/", "reasoning_gym/", "trl/"])


def test_the_report_of_the_example_for_trl_is_a_valid_configuration() -> None:
    config = read_config(EXAMPLES / "trl" / "report.yaml")
    check_files(config.model_copy(update={"checkpoints": {}}), ROOT)
    assert config.checkpoints == {"dph": "./out/dph-s1"}
    assert config.methods == {}


def test_answers_get_the_verdicts_of_the_page_on_scoring() -> None:
    # Ben is 41 and Cleo 35; of the four fractions two are a half, and one answer has none.
    found = [line.split() for line in printed("score_answers").splitlines()]
    sql = ["correct", "wrong", "runtime_error", "refused", "no_answer"]
    assert [verdict for task, verdict, _ in found if task == "sql"] == sql
    maths = ["correct", "correct", "wrong", "no_answer"]
    assert [verdict for task, verdict, _ in found if task == "math"] == maths
    assert [float(reward) for *_, reward in found] == [1, 0, 0, 0, 0, 1, 1, 0, 0]


def test_pass_at_k_is_the_share_of_draws_with_a_right_sample() -> None:
    # Of 4 samples 4, 2, 1 or 0 are right; of the 6 pairs 6, 5, 3 and 0 have a right one; of 4 draws all but the last.
    for k, of_question in enumerate(([1, 2 / 4, 1 / 4, 0], [1, 5 / 6, 3 / 6, 0], [1, 1, 1, 0])):
        value, low, high = numbers("pass_at_k")[3 * k : 3 * k + 3]
        mean = sum(of_question) / 4
        assert value == pytest.approx(100 * mean, abs=0.051)
        # The t interval over 20 questions, which resampling is near.
        error = math.sqrt(5 * sum((one - mean) ** 2 for one in of_question) / 19 / 20)
        half = 100 * t.ppf(0.975, 19) * error
        assert (low, high) == pytest.approx((100 * mean - half, 100 * mean + half), abs=2.0)


def test_a_divergence_of_the_user_has_its_closed_form_and_leads_back_to_the_reference() -> None:
    expected = [round(2 - 2 * (math.sqrt(0.4) + math.sqrt(0.1)), 4), 0.8, 0.5]
    assert numbers("own_functions") == [*expected, 0.75, -0.25, -0.25, -0.25]


def test_the_diagnosis_is_the_t_interval_over_the_questions() -> None:
    # Two of four samples solve a question within two tries in 5 of 6 cases: of 80 differences 20 are 1 - 5/6, 20 are
    # -5/6, the others 0.
    mean, squares = 100 / 4 - 100 / 2 * 5 / 6, (20 / 36 + 20 * 25 / 36) / 80
    half = 100 * t.ppf(0.975, 79) * math.sqrt((squares - (mean / 100) ** 2) / 79)
    expected = [round(100 / 2 * 5 / 6, 1), 25.0, round(mean, 1), round(mean - half, 1), round(mean + half, 1)]
    assert numbers("diagnose_samples")[:5] == expected
    assert printed("diagnose_samples").endswith("questions lost: 16.7\nexit code 3\n")


def test_the_example_of_a_custom_scorer_is_a_valid_configuration_from_the_root_of_the_project() -> None:
    config = read_config(EXAMPLES / "custom_scorer" / "config.yaml")
    check_files(config, ROOT)
    assert config.replay["base"].keys() == {"capitals"}


def test_the_pair_of_reasoning_gym_has_the_published_numbers(tmp_path: Path) -> None:
    """The gain with the questions of both files, 21.7 points; the files' own scores differ by 19.1."""
    files = [EXAMPLES / "reasoning_gym" / f"{name}.json" for name in ("base", "tuned")]
    assert main(["diagnose", *map(str, files), "--threshold", "1", "--json", str(tmp_path / "d.json")]) == 0
    said = json.loads((tmp_path / "d.json").read_text(encoding="utf-8"))
    (model,) = said["models"].values()
    points = [100 * value for value in (model["coverage"]["value"], *model["coverage"]["wide"])]
    assert points == pytest.approx([21.7, 18.0, 25.3], abs=0.05)
    assert {name: len(questions) for name, questions in model["left_out"].items()} == {"base": 73, "tuned": 73}
