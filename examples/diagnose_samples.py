"""A diagnosis from Python: did a tuned model lose what its base can do?

The base solves 40 of 80 questions, with two of four samples each. The tuned model solves 20 of these with every sample:
pass@1 stays at 25 %, pass@2 falls from 42 % to 25 %. It prints

    COLLAPSED: pass@2 41.7 % -> 25.0 %, difference -16.7 points [-25.4, -7.9]
    questions lost: 16.7
    exit code 3

as does `dphrl diagnose base.jsonl tuned.jsonl`, with tables.
"""

import json
import tempfile
from pathlib import Path

from dphrl.data.sample_files import read_samples
from dphrl.diagnose.comparison import diagnose

BASE = {f"q{number}": [1, 1, 0, 0] if number < 40 else [0] * 4 for number in range(80)}
TUNED = {f"q{number}": [1] * 4 if number < 20 else [0] * 4 for number in range(80)}


def write(path: Path, verdicts: dict[str, list[int]]) -> Path:
    """A file of samples, one row per sample; other tools' files are read too (docs/diagnose-formats.md)."""
    rows = [
        {"question_id": key, "text": f"answer {right}", "correct": bool(right)}
        for key, answers in verdicts.items()
        for right in answers
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        files = [write(Path(folder, "base.jsonl"), BASE), write(Path(folder, "tuned.jsonl"), TUNED)]
        found = diagnose([read_samples(file) for file in files], margin=0.05)
    model = found.models["tuned"]
    diagnosis, coverage = model.diagnosis, model.diagnosis.coverage
    low, high = coverage.wide
    print(
        f"{diagnosis.word}: pass@{diagnosis.k} {100 * coverage.base:.1f} % -> {100 * coverage.tuned:.1f} %, "
        f"difference {100 * coverage.value:.1f} points [{100 * low:.1f}, {100 * high:.1f}]"
    )
    print(f"questions lost: {diagnosis.exchange.lost:.1f}")
    print(f"exit code {found.exit_code}")
