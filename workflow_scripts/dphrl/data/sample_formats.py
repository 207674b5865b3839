"""Formats of known tools: by which fields a file is recognised, and where each of our fields is."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Final

import polars as pl

from dphrl.data.fields import NAMES
from dphrl.data.records import Numbered, Record, SourceError, leaves, names_of
from dphrl.data.sample_fields import Field

# Columns of `SampleFile.rows`, in this order.
COLUMNS: Final[dict[str, pl.DataType]] = {
    "question_id": pl.String(),
    "question": pl.String(),
    "text": pl.String(),
    "correct": pl.Boolean(),
    "gold": pl.String(),
    "cluster": pl.String(),
    "truncated": pl.Boolean(),
}
# Further columns where a scorer of the workflow found which answers and programs are alike.
CLASSES: Final = ("answer_class", "program_class")

# The fields that `--map` can name. `text` is a response or a list; with a list, `correct`, `score` and `truncated` may
# be lists too. Rows without text have `correct`, or n samples of which c are right.
OUR_FIELDS: Final = (*COLUMNS, "score", "n", "c", "sample_index")
SETTINGS: Final = ("temperature", "top_p", "max_tokens", "grader")


@dataclass(frozen=True)
class Format:
    """A tool's format.

    `needs`: groups of fields. A file is in this format if its first object contains a field of each group.
    `names`: our field -> the file's, in order of preference. A dot leads into a nested object: `doc.question`.
    `settings`: likewise. `error`: a field that is set where the tool failed, not the model.
    `no_scores`: numbers of a row that are no scores, in formats whose scores have names of the user (a reward function,
    a metric).
    """

    name: str
    needs: tuple[tuple[str, ...], ...]
    names: Mapping[str, tuple[str, ...]]
    settings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    error: str | None = None
    no_scores: tuple[str, ...] = ()

    def fits(self, record: Record) -> bool:
        return all(Field(group).is_in(record) for group in self.needs)


# `RayPPOTrainer._dump_generations` in verl/trainer/ppo/ray_trainer.py, which writes both `trainer.validation_data_dir`
# and `trainer.rollout_data_dir`: input, output, gts, score, step and fields of the reward function, such as acc.
# https://github.com/volcengine/verl at b178a3cd56f5; files before August 2025 have no gts. `last_outputs` reads the
# sessions of trainer/ppo/v1/trainer_base.py at 04141f84a365.
VERL: Final = Format(
    name="verl",
    needs=(("input",), ("output",), ("score",)),
    names={"question": ("input",), "text": ("output",), "score": ("score",), "gold": ("gts",)},
)

# The uid of a row is {prompt}_{session}_{output} where a session of an agent has several outputs.
_SESSION: Final = re.compile(r"(.+_\d+)_\d+")


def last_outputs(rows: Iterable[Numbered]) -> Iterator[Numbered]:
    """A row for each session: its last output with the input of its first. All rows of a session have its score.

    Rows of a session follow one another. A row without a session stays as it is.
    """

    def session(numbered: Numbered) -> object:
        path, number, record = numbered
        uid = _SESSION.fullmatch(str(record.get("uid")))
        return uid[1] if uid else (path, number)

    for _, outputs in groupby(rows, session):
        first, *others = outputs
        path, number, record = others[-1] if others else first
        yield path, number, record | {"input": first[2]["input"]} if others else record


# The table "verdicts" of a run of this workflow (dphrl/store/catalogue.py). Its text is the extracted answer: the
# responses are in another table.
DPHRL: Final = Format(
    name="dphrl",
    needs=(("prompt_id",), ("sample_index",), ("correct",), ("extracted",)),
    names={
        "question_id": ("prompt_id",),
        "sample_index": ("sample_index",),
        "text": ("extracted",),
        "correct": ("correct",),
        **{name: (name,) for name in CLASSES},
    },
)

# `save_results_samples` in lm_eval/loggers/evaluation_tracker.py and `SampleResult` in lm_eval/result_schema.py: one
# object per question and filter; resps is a list of texts per request. `score_field` chooses the metric.
# https://github.com/EleutherAI/lm-evaluation-harness at 4e7e0d47f33b.
LM_EVAL: Final = Format(
    name="lm-eval",
    needs=(("doc_id",), ("doc",), ("resps",)),
    names={
        "question_id": ("doc_id",),
        "question": ("doc.question", "doc.problem", "arguments.gen_args_0.arg_0", "arguments.0.0"),
        "text": ("resps.0",),
        "gold": ("target",),
    },
    settings={
        "temperature": ("arguments.gen_args_0.arg_1.temperature", "arguments.0.1.temperature"),
        "top_p": ("arguments.gen_args_0.arg_1.top_p", "arguments.0.1.top_p"),
        "max_tokens": ("arguments.gen_args_0.arg_1.max_gen_toks", "arguments.0.1.max_gen_toks"),
    },
    no_scores=("doc_id", "target"),
)

# `math_eval.py` in https://github.com/QwenLM/Qwen2.5-Math (evaluation/, a45202bd16f1) and, with finish_reason, in
# https://github.com/LeapLabTHU/limit-of-RLVR (math/examples/math_eval/, fd2cf37f05cc): one object per question; code
# (the responses), pred, report and score are lists with an entry per sample.
QWEN_MATH: Final = Format(
    name="qwen-math",
    needs=(("idx",), ("code", "pred"), ("score",)),
    names={
        "question_id": ("idx",),
        "question": ("question", "problem"),
        "text": ("code", "pred"),
        "score": ("score",),
        "gold": ("gt", "answer"),
        "truncated": ("finish_reason",),
    },
)

# `state_to_output` and `save_outputs` of verifiers: results.jsonl, next to metadata.json with the settings; prompt and
# completion are lists of messages. https://github.com/PrimeIntellect-ai/verifiers at a60a606ecc4d, there under
# verifiers/legacy/utils/save_utils.py; in versions up to October 2025 example_id was called id.
VERIFIERS: Final = Format(
    name="verifiers",
    needs=(("example_id", "id"), ("prompt",), ("completion",), ("reward",)),
    names={
        "question_id": ("example_id", "id"),
        "question": ("prompt",),
        "text": ("completion",),
        "score": ("reward",),
        "gold": ("answer",),
        "truncated": ("is_truncated",),
    },
    settings={
        "temperature": ("sampling_args.temperature",),
        "top_p": ("sampling_args.top_p",),
        "max_tokens": ("sampling_args.max_tokens", "sampling_args.max_completion_tokens"),
        "grader": ("env_id", "env"),
    },
    error="error",
)

# traces.jsonl of verifiers 0.2: `Trace` in verifiers/v1/trace.py at 00eee6c6308d. Nodes are the messages. A reward
# has a score and a weight, or is null where scoring did not run.
VERIFIERS_TRACES: Final = Format(
    name="verifiers-traces",
    needs=(("task.data",), ("nodes",), ("rewards",)),
    names={
        "question_id": ("task.key", "task.data.idx"),
        "question": ("task.data.prompt",),
        "text": ("nodes.*.message",),
        "score": ("rewards",),
        "gold": ("task.data.answer",),
        "truncated": ("calls.-1.finish_reason", "nodes.-1.finish_reason"),
    },
    settings={
        "temperature": ("calls.0.sampling.temperature",),
        "top_p": ("calls.0.sampling.top_p",),
        "max_tokens": ("calls.0.sampling.max_tokens",),
    },
    error="errors",
)

# `GRPOTrainer.log` in trl/trainer/grpo_trainer.py with `log_completions`: completions_<step>.parquet with step, prompt,
# completion, a column per reward function, columns that the user logged, and advantage. `score_field` chooses the
# reward.
# https://github.com/huggingface/trl at f2cd57710ae3.
TRL: Final = Format(
    name="trl",
    needs=(("prompt",), ("completion",), ("step", "advantage")),
    names={"question": ("prompt",), "text": ("completion",)},
    no_scores=("step", "advantage"),
)

# https://github.com/open-thought/reasoning-gym (eval/eval.py): completions of a question, or one response in the row.
REASONING_GYM: Final = Format(
    name="reasoning-gym",
    needs=(("question",), ("expected_answer",), ("completions.*.score", "full_model_response")),
    names={
        "question": ("question",),
        "text": ("completions.*.full_model_response", "full_model_response"),
        "score": ("completions.*.score", "score"),
        "gold": ("expected_answer",),
    },
)

# Rows under the names of `NAMES`, recorded answers among them (docs/replay.md).
PLAIN: Final = Format(
    name="plain",
    needs=(
        (*NAMES["question_id"], *NAMES["question"], "prompt"),
        (*NAMES["text"], *NAMES["correct"], *NAMES["score"], *NAMES["c"]),
    ),
    names={
        **{name: NAMES.get(name, (name,)) for name in OUR_FIELDS},
        "question": (*NAMES["question"], "prompt"),
        "gold": ("ground_truth", *NAMES["answer"]),
    },
    settings={name: (name,) for name in SETTINGS},
)

# In the order in which they are tried.
FORMATS: Final = (VERL, LM_EVAL, QWEN_MATH, VERIFIERS, VERIFIERS_TRACES, TRL, DPHRL, REASONING_GYM, PLAIN)


def recognise(path: Path, record: Record, mapping: Mapping[str, str]) -> Format:
    """The format of a file by its first object; a plain file where the user names fields.

    Raises:
        SourceError: it is in no known format, and `mapping` is empty.
    """
    for format in FORMATS:
        if format.fits(record):
            return format
    if mapping:
        return PLAIN
    raise SourceError(
        f"{path}: no known format (docs/diagnose-formats.md): looked for an id or a question, with responses or "
        f"verdicts; the first object has {names_of(leaves(record))}; name them: --map question=FIELD --map text=FIELD "
        "--map correct=FIELD"
    )


def score_field(path: Path, known: Format, record: Record, mapping: Mapping[str, str]) -> str | None:
    """The field of the scores, for formats whose files name it differently; else None.

    Raises:
        SourceError: the file contains several scores, and `mapping` names none of them.
    """
    if not known.no_scores or mapping.keys() & {"score", "correct"}:
        return None
    numbers = [name for name, value in record.items() if isinstance(value, float | int | None)]
    scores = [name for name in numbers if name not in known.no_scores]
    if known is LM_EVAL and "exact_match" in scores:
        return "exact_match"
    if len(scores) > 1:
        raise SourceError(
            f"{path}: the responses have several scores ({names_of(dict.fromkeys(scores))}): say which one judges "
            f"them, --map score={scores[0]}"
        )
    return scores[0] if scores else None
