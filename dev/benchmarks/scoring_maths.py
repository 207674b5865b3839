"""Speed of the maths scorer and of math-verify alone: python dev/benchmarks/scoring_maths.py --data shared/data

Both judge the graded answers to MATH and GSM8K problems on one core, after one answer to warm up. math-verify parses
every gold and every response and verifies them, as its documentation shows.
"""

import argparse
import json
import logging
import time
from collections.abc import Callable
from pathlib import Path

from math_verify import parse, verify

from dphrl.scoring import MathScorer

Case = tuple[str, str]


def qwen(folder: Path) -> list[Case]:
    """Response and gold of 57 MATH problems, 8 answers each."""
    rows = map(json.loads, (folder / "qwen_math_cot.jsonl").read_text().splitlines())
    return [(response, f"${row['gt']}$") for row in rows for response in row["response"]]


def gsm8k(folder: Path) -> list[Case]:
    """Final lines of solutions to 899 GSM8K problems by 4 models, and of the golds."""
    rows = map(json.loads, (folder / "gsm8k_model_solutions.jsonl").read_text().splitlines())
    return [
        (final_line(model["solution"]), final_line(row["ground_truth"]))
        for row in rows
        for model in row.values()
        if isinstance(model, dict)
    ]


def final_line(solution: str) -> str:
    """The text after the last `A:`, marked as the final answer for both sides."""
    return f"#### {solution.rpartition('A:')[2].strip()}"


def alone(cases: list[Case]) -> list[bool]:
    """The verdicts of math-verify."""
    return [verify(parse(gold), parse(response)) for response, gold in cases]


def timed(judge: Callable[[list[Case]], list[bool]], cases: list[Case]) -> tuple[float, list[bool]]:
    """Seconds and verdicts."""
    start = time.perf_counter()
    verdicts = judge(cases)
    return time.perf_counter() - start, verdicts


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds math_graded/")
    folder = parser.parse_args().data / "math_graded"
    logging.disable(logging.CRITICAL)
    print("| answers | count | math-verify, answers/s | this scorer, answers/s | ratio | same verdict |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    total_alone = total = 0.0
    scorer = MathScorer(workers=1, answer="final")

    def scored(cases: list[Case]) -> list[bool]:
        golds = [{"answer": gold} for _, gold in cases]
        return [verdict.correct for verdict in scorer.score([response for response, _ in cases], golds)]

    for judge in (alone, scored):
        judge([("$x + 1$", "$1 + x$")])
    for name, cases in (("MATH", qwen(folder)), ("GSM8K", gsm8k(folder))):
        seconds_alone, verdicts_alone = timed(alone, cases)
        seconds, verdicts = timed(scored, cases)
        same = sum(a == b for a, b in zip(verdicts_alone, verdicts, strict=True)) / len(cases)
        total_alone, total = total_alone + seconds_alone, total + seconds
        print(
            f"| {name} | {len(cases)} | {len(cases) / seconds_alone:.0f} | {len(cases) / seconds:.0f} "
            f"| {seconds_alone / seconds:.1f} | {same:.2%} |"
        )
    scorer.close()
    print(f"| both | | | | {total_alone / total:.1f} | |")


if __name__ == "__main__":
    main()
