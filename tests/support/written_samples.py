"""Files of samples as the tools that formats.py names write them; the fields are those of their sources."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

CHAT = "system\nYou are a helpful assistant.\nuser\nWhat is 2 + 2?\nassistant\n"


def lines(path: Path, *rows: dict[str, Any]) -> Path:
    """The rows as lines of JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), encoding="utf-8")
    return path


def verl(output: str, score: float, input: str = CHAT, **more: Any) -> dict[str, Any]:
    """A row of a validation dump."""
    return {"input": input, "output": output, "gts": "4", "score": score, "step": 40, "reward": score, **more}


def lm_eval(doc_id: int, responses: list[str], score: float, filter: str = "strict-match") -> dict[str, Any]:
    """A row of `samples_*.jsonl`."""
    question = f"Question {doc_id}?"
    settings = {"until": ["Q:"], "do_sample": True, "temperature": 0.2, "max_gen_toks": 256}
    return {
        "doc_id": doc_id,
        "doc": {"question": question, "answer": "so it is 4\n#### 4", "level": 3},
        "target": "so it is 4\n#### 4",
        "arguments": {"gen_args_0": {"arg_0": f"Q: {question}\nA:", "arg_1": settings}},
        "resps": [responses],
        "filtered_resps": [response[-1:] for response in responses[:1]],
        "filter": filter,
        "metrics": ["exact_match"],
        "doc_hash": "d0",
        "prompt_hash": "p0",
        "target_hash": "t0",
        "exact_match": score,
    }


def verifiers(example_id: int, answer: str | None, reward: float, **more: Any) -> dict[str, Any]:
    """A row of `results.jsonl`."""
    spoken = [{"role": "assistant", "content": answer}]
    return {
        "example_id": example_id,
        "prompt": [{"role": "system", "content": "Think."}, {"role": "user", "content": f"Question {example_id}?"}],
        "completion": spoken,
        "reward": reward,
        "timing": {"total": 1.0},
        "is_completed": True,
        "is_truncated": False,
        "stop_condition": "done",
        "metrics": {"correct_answer": reward},
        "error": None,
        "answer": "4",
        **more,
    }


def qwen_math(idx: int, code: list[str], score: list[bool], **more: Any) -> dict[str, Any]:
    """A row of Qwen2.5-Math's evaluation: all samples of a question."""
    return {
        "idx": idx,
        "question": f"Question {idx}?",
        "gt_cot": "so 4",
        "gt": "4",
        "level": 5,
        "answer": "4",
        "code": code,
        "pred": [text[-1:] for text in code],
        "report": [None] * len(code),
        "score": score,
        **more,
    }


def write_every_format(asked: Mapping[str, Sequence[tuple[str, bool]]], folder: Path) -> None:
    """The same samples in a file of each format, which is the file's name.

    Args:
        asked: responses with their verdicts, by question; the questions are "Question 0?", "Question 1?" and so on.
    """
    flat = [(question, text, right) for question, samples in asked.items() for text, right in samples]
    split = [([text for text, _ in samples], [right for _, right in samples]) for samples in asked.values()]
    pl.DataFrame(
        {
            "step": [1] * len(flat),
            "prompt": [question for question, _, _ in flat],
            "completion": [text for _, text, _ in flat],
            "accuracy_reward": [float(right) for _, _, right in flat],
            "advantage": [0.0] * len(flat),
        }
    ).write_parquet(folder / "trl.parquet")
    numbers = {question: number for number, question in enumerate(asked)}
    lines(folder / "verl.jsonl", *(verl(text, float(right), question) for question, text, right in flat))
    lines(folder / "lm-eval.jsonl", *(lm_eval(numbers[q], [text], float(right)) for q, text, right in flat))
    lines(folder / "verifiers.jsonl", *(verifiers(numbers[q], text, float(right)) for q, text, right in flat))
    lines(folder / "qwen-math.jsonl", *(qwen_math(number, *lists) for number, lists in enumerate(split)))
    lines(folder / "plain.jsonl", *({"question": q, "text": text, "correct": right} for q, text, right in flat))
