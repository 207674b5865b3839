"""The cause of a failed job in its log."""

import subprocess
import sys
from pathlib import Path

import pytest

from dphrl.machine.cause import cause_in, described

JOB = """
import importlib.util, sys
from dphrl.machine.cause import print_cause
sys.excepthook = print_cause
spec = importlib.util.spec_from_file_location("scorer", "scorer.py")
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
try:
    {}
except KeyError:
    raise ValueError("an answer is missing\\nrecord it")
"""


def log_of(statement: str, folder: Path) -> str:
    """What a job prints that runs a statement; `module` has a function of the user."""
    (folder / "scorer.py").write_text("import json\n\ndef score(text):\n    return json.loads(text)\n")
    script = folder / ".snakemake/scripts/job.py"
    script.parent.mkdir(parents=True)
    script.write_text(JOB.format(statement))
    environment = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, str(script)], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    return done.stderr


def test_the_cause_of_an_error_in_the_users_code_has_its_place(tmp_path: Path) -> None:
    log = log_of("module.score('{')", tmp_path)
    assert "Traceback" in log
    error, place = cause_in(log)
    assert error.startswith("JSONDecodeError: Expecting property name")
    assert place == f"in {tmp_path}/scorer.py, line 4"


def test_the_cause_is_the_last_error_with_all_its_lines(tmp_path: Path) -> None:
    assert cause_in(log_of("raise KeyError", tmp_path)) == ["ValueError: an answer is missing", "record it"]


def test_the_cause_of_a_killed_job_is_the_end_of_its_log() -> None:
    assert cause_in("\n".join(f"step {number}" for number in range(30)))[-2:] == ["step 28", "step 29"]
    assert cause_in("") == []


def test_libraries_may_print_after_the_cause() -> None:
    log = "\n".join(["Traceback", "FAILED: ValueError: no rehearsal", *["[W1 06:00] destroy"] * 50])
    assert cause_in(log)[0] == "ValueError: no rehearsal"


@pytest.mark.parametrize(("error", "text"), [(KeyboardInterrupt(), "KeyboardInterrupt"), (OSError("x"), "OSError: x")])
def test_an_error_has_its_type(error: BaseException, text: str) -> None:
    assert described(error) == text
