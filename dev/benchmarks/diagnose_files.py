"""Time and memory of `dphrl diagnose` on two made-up files: python dev/benchmarks/diagnose_files.py --questions 300

The files have 16 samples of each question: a base that calculates in five ways, and a model tuned from it that solves
nearly always, in one way, what the base solves in 3 of 10 samples, and hardly the rest. With --out FOLDER they are
kept, next to the figure of their pass@k.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from dphrl.data.sample_files import read_samples
from dphrl.diagnose.comparison import diagnose
from dphrl.diagnose.comparison_page import figure
from dphrl.report.figures import to_svg

SAMPLES = 16
WAYS = ("{n} + {n}", "2 * {n}", "{three} - {n}", "{four} / 2", "{n} + {n} * 1")
OF_BASE, OF_TUNED = (0.3, 0.25, 0.2, 0.15, 0.1), (0.88, 0.03, 0.03, 0.03, 0.03)


def write(path: Path, questions: int, seed: int, narrowed: bool) -> Path:
    """The answers of one model."""
    random = np.random.default_rng(seed)
    rates = np.random.default_rng(9).beta(0.5, 0.8, questions)
    if narrowed:
        rates = np.where(rates > 0.3, 0.95, 0.25 * rates)
    with path.open("w", encoding="utf-8") as file:
        for number, rate in enumerate(rates, start=1):
            ways = random.choice(len(WAYS), SAMPLES, p=OF_TUNED if narrowed else OF_BASE)
            for right, way in zip(random.random(SAMPLES) < rate, ways, strict=True):
                answer = 2 * number + (0 if right else 1 + int(way))
                steps = WAYS[way].format(n=number, three=3 * number, four=4 * number)
                row: dict[str, object] = {"question_id": str(number), "question": f"What is twice {number}?"}
                row |= {"text": f"{steps} = {answer}, so \\boxed{{{answer}}}", "correct": bool(right)}
                file.write(json.dumps(row) + "\n")
    return path


def measured(files: list[Path]) -> list[str]:
    """Seconds, CPU seconds and peak memory in MiB of the command, from a cold start; of a child the largest process."""
    start = time.perf_counter()
    called = "import sys; from dphrl.cli import main; sys.exit(main(['diagnose', *sys.argv[1:]]))"
    command = [sys.executable, "-c", called, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode not in (0, 3, 4):
        raise RuntimeError(done.stderr[-2000:])
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return [f"{seconds:.1f}", f"{used.ru_utime + used.ru_stime:.1f}", f"{used.ru_maxrss / 1024:.0f}"]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=300, help="default: 300; 31250 are a million verdicts")
    parser.add_argument("--out", metavar="FOLDER", type=Path, help="keep the files there, with a figure of them")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.out or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        names = ("base", "tuned")
        files = [write(folder / f"{name}.jsonl", options.questions, seed, seed > 0) for seed, name in enumerate(names)]
        row = [f"{2 * SAMPLES * options.questions:,}", *measured(files)]
        for line in (["verdicts", "seconds", "CPU seconds", "peak MiB"], ["---:"] * 4, row):
            print("|", " | ".join(line), "|")
        if options.out:
            diagnosis = diagnose([read_samples(path) for path in files])
            (folder / "diagnose.svg").write_text(to_svg(figure(diagnosis)), encoding="utf-8")


if __name__ == "__main__":
    main()
