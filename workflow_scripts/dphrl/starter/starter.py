"""A first configuration for a file of questions: task and fields, then a template of the task with its values."""

import json
import math
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import yaml

from dphrl.config.blocks.data import MATH, SQL
from dphrl.config.config import Config
from dphrl.config.errors import ConfigError, Problem
from dphrl.config.load import load_config
from dphrl.config.places import check_files
from dphrl.hub import SMALL_FILES, data_name, model_name, one_file, snapshot
from dphrl.machine.progress import counted
from dphrl.plan.describe import check_fits, shape_of
from dphrl.plan.memory import LESS_MEMORY, Setting, phases
from dphrl.sample_files.records import SourceError, read_source
from dphrl.sizes import model_settings
from dphrl.tasks.fields import NAMES, Fields, MalformedError, Renames
from dphrl.tasks.ground_truth import truth_of
from dphrl.tasks.prepare import prepare
from dphrl.tasks.tokens import encoder

if TYPE_CHECKING:
    from dphrl.starter.drawn import Drawn

# Further names of fields, for files without a known name; in small letters, with "_" for blanks and "-".
_QUESTION: Final = (
    *("ask", "input", "instruction", "text", "question_text", "query_text", "prompt_text", "problem_statement"),
    *("utterance", "nl_question", "nl", "q"),
)
_EXPECTED: Final = ("expected", "gold", "label", "reference", "target", "output", "result", "correct")
_ANSWER: Final = (
    *("expected_answer", "gold_answer", "reference_answer", "correct_answer", "ground_truth_answer", "answers"),
    *_EXPECTED,
)
_WANTED: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    SQL: {
        "question": _QUESTION,
        "db_id": ("db", "database", "database_id", "db_name", "database_name"),
        "gold_sql": ("sql", "gold_query", "sql_query", "target_sql", "expected_sql", *_EXPECTED),
    },
    MATH: {"question": (*_QUESTION, "query"), "answer": _ANSWER},
}
_CUSTOM: Final = {"question": (*_QUESTION, "query"), "ground_truth": (*_EXPECTED, "answer")}
# Fields with the same use.
_ALSO: Final = {
    "question": ("prompt", "messages"),
    "answer": ("solution", "ground_truth"),
    "gold_sql": ("ground_truth",),
}
_LOOKED_AT: Final = 200


class LayoutError(ValueError):
    """The fields of a file fit no task; the text names the file, its fields and the expected fields."""


def layout_of(
    source: str, rows: Sequence[Mapping[str, Any]], task: str | None, given: Renames
) -> tuple[str, dict[str, Any]]:
    """The task of a file of questions, and `fields`: our name of a field -> the file's, where it is not a known one.

    Args:
        task: the task, if it is known; then only its fields are looked for.
        given: names that the user gave; they come first.

    Raises:
        LayoutError: no task fits half of the first rows.
    """
    head, reasons = rows[:_LOOKED_AT], list[str]()
    for name in (task,) if task else (SQL, MATH):
        fields = {**_renamed(head, name), **given}
        lookup, fitting, reason = Fields(fields), 0, ""
        for row in head:
            try:
                truth_of(row, name, lookup)
                fitting += 1
            except MalformedError as error:
                reason = reason or str(error)
        if 2 * fitting >= len(head):
            return name, fields
        reasons.append(f"{name}: {reason}")
    expected = "; ".join(reasons)
    raise LayoutError(
        f"{source}: its fields are {', '.join(map(str, rows[0]))}, and no task has them ({expected}). Name them, for "
        "instance --field question=THEIRS --field answer=THEIRS; another task needs --task NAME --scorer FILE "
        "(docs/datasets.md, docs/how-to/own-scorer.md)"
    )


def _renamed(rows: Sequence[Mapping[str, Any]], task: str) -> dict[str, str]:
    """The fields that the rows have under a name of `_WANTED`, by our name."""
    present = [str(name) for name in dict.fromkeys(name for row in rows for name, value in row.items() if value)]
    plain = {name.lower().replace("-", "_").replace(" ", "_"): name for name in present}
    renames: dict[str, str] = {}
    for ours, others in _WANTED.get(task, _CUSTOM).items():
        known_names = [name for field_name in (ours, *_ALSO.get(ours, ())) for name in NAMES[field_name]]
        nested = ours != "question" and "reward_model" in present
        if nested or any(name in present for name in known_names):
            continue
        taken = renames.values()
        name = next((plain[other] for other in others if other in plain and plain[other] not in taken), None)
        if name is not None:
            renames[ours] = name
    return renames


_METHOD = "dph_js"
_DEFAULTS = {"positions": 20480, "per_step": 128}
# Table 7 of arXiv 2509.07430: length of a response and passes over the questions. Other tasks use the values of SQL.
_RESPONSE, _EPOCHS = {SQL: 4096, MATH: 2048}, {SQL: 4, MATH: 8}
# Limits of lengths are multiples of so many tokens.
_MULTIPLE = 64


@dataclass(frozen=True)
class Wish:
    """What a user gives; paths are relative to the folder in which the workflow runs.

    Attributes:
        name: of the run.
        data, test: questions to train and to evaluate on, files or names of the hub; without `test` those of `data`.
        model: folder of the base model, or its name on the hub.
        task, scorer: of a custom task, its name and file; a task alone for sql or math that is not to be found.
        databases: of SQL questions; None: the folder `database` next to `data`.
        fields: our name of a field -> the file's.
        gpu_gib: memory of a GPU; None for a machine without.
        draw: draw a few answers first, and set limits and rule by them.
    """

    name: str
    data: str
    model: str
    test: str | None = None
    task: str | None = None
    scorer: str | None = None
    databases: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    gpu_gib: float | None = 80.0
    draw: bool = False


def next_steps(out: Path, gpu_gib: float | None, ranks: int) -> Iterator[str]:
    """The commands that follow: the plan, the division of the questions, and the whole run."""
    dphrl = "dphrl" if shutil.which("dphrl") else ".venv/bin/dphrl"
    file = shlex.quote(str(out))
    yield f"  {dphrl} plan {file}" + (f" --gpu-gib {gpu_gib:g} --slots {ranks}" if gpu_gib else "")
    # make has no names with blanks.
    if gpu_gib or file != str(out):
        machine = "--profile profiles/gpu-node" if gpu_gib else "--cores 2"
        run, end = ".venv/bin/snakemake", f"{machine} --configfile {file}"
        yield f"  {run} partition {end}"
    else:
        run, end = "make run", f"CONFIG={out}"
        yield f"  {run} {end} TARGET=partition"
    yield "      # says how large D_pef is; where it is empty or small, lower partition.pef_min_correct"
    yield f"  {run} {end}"


def starter(wish: Wish, folder: Path = Path()) -> tuple[str, str, int]:
    """A first configuration, checked as the workflow does.

    Args:
        wish: the user's files, model and machine.
        folder: where relative paths start.

    Returns:
        The configuration as text, a line on each file of questions, and the number of ranks of a training.

    Raises:
        ConfigError: a file or folder is not there, or the model fits on no number of GPUs.
        ValueError, OSError: a file of questions cannot be read, or has no question.
    """
    model = _model(wish, folder)
    sources = {"train": wish.data} | ({"test": wish.test} if wish.test else {})
    read = {name: _dataset(wish, source, folder, model) for name, source in sources.items()}
    task, rows = read["train"].entry["task"], read["train"].rows
    # The largest power of two up to a quarter of the questions.
    per_step = min(_DEFAULTS["per_step"], 1 << (max(rows // 4, 2).bit_length() - 1))

    def configured(hardware: Mapping[str, Any], drawn: "Drawn | None" = None) -> tuple[str, Config]:
        schedule = _schedule(task, rows, max(per_step, 2 * hardware.get("ranks", 1)))
        text = _text(wish, read, model, schedule, hardware, drawn)
        return text, load_config(yaml.safe_load(text))

    text, config = configured({})
    if hardware := _hardware(wish, config, folder):
        text, config = configured(hardware)
    check_files(config, folder)
    check_fits(config, folder)
    report = [line for dataset in read.values() for line in dataset.report(config)]
    if wish.draw:
        from dphrl.starter.drawn import draw  # with torch, which a first configuration does not need

        drawn = draw(config, folder)
        text, config = configured(hardware, drawn)
        report.append(drawn.report)
    return text, "\n".join(report), config.hardware.ranks


class _Dataset(NamedTuple):
    """A file of questions: its entry in the configuration, its number of rows, and what became of them.

    `lengths` are the tokens of each prompt, all 0 without transformers; `rejected` is why the first row is none.
    """

    entry: dict[str, Any]
    rows: int
    lengths: list[int]
    rejected: str

    def report(self, config: Config) -> Iterator[str]:
        """Lines on its rows, and on prompts that the configuration leaves out."""
        fields = ", ".join(f"{ours} is {theirs}" for ours, theirs in self.entry.get("fields", {}).items())
        yield (
            f"{self.entry['source']}: {self.rows} rows, task {self.entry['task']}{f' ({fields})' if fields else ''}; "
            f"{counted(len(self.lengths), 'prompt')}{f' (rejected: {self.rejected}, ...)' if self.rejected else ''}, "
            + (f"at most {max(self.lengths)} tokens" if any(self.lengths) else "not measured without transformers")
        )
        limit = config.prompts.max_tokens
        if longer := sum(length > limit for length in self.lengths):
            yield f"  {longer} are longer than prompts.max_tokens, {limit}: the positions of the model are too few"


def _dataset(wish: Wish, source: str, folder: Path, model: "_Model") -> _Dataset:
    name = data_name(source)
    file = one_file(name, name.file, online=True) if name else folder / source
    if file is None or not file.is_file():
        raise FileNotFoundError(f"{source}: there is no such file; expected questions in .jsonl, .json or .parquet")
    rows = read_source(file)
    task, fields = layout_of(source, rows, wish.task, wish.fields)
    entry: dict[str, Any] = {"task": task, "source": source}
    databases = None
    if task == SQL:
        where = wish.databases or str(Path(source).parent / "database")
        databases = folder / where
        if not databases.is_dir():
            raise FileNotFoundError(
                f"{source}: expected its databases, {where}/<db_id>/<db_id>.sqlite: name their folder with --databases"
            )
        entry |= {"databases": wish.databases} if wish.databases else {}
    entry |= {"fields": fields} if fields else {}
    try:
        made = prepare(rows, task, source, model.encode, sys.maxsize, fields=fields, databases=databases)
    except SourceError as error:
        raise LayoutError(f"{error}. --field question=THEIRS names it") from None
    rejected = made.rejected.row(0, named=True)["detail"] if made.rejected.height else ""
    return _Dataset(entry, len(rows), made.prompts["prompt_token_ids"].list.len().to_list(), rejected)


@dataclass(frozen=True)
class _Model:
    """Of a model: its kind, whether its tokenizer has a chat template, how long a sequence may be, and its dtype.

    `dtype` is None for the default, bfloat16; `encode` makes tokens of messages, and is None without transformers.
    """

    kind: str
    chat: bool
    positions: int
    dtype: str | None
    encode: Callable[[list[dict[str, str]]], list[int]] | None


def _model(wish: Wish, folder: Path) -> _Model:
    hub = model_name(wish.model, folder)
    small = {"allow_patterns": [*SMALL_FILES], "ignore_patterns": ["*/*"]}
    place = snapshot(hub, small)[0] if hub else folder / wish.model
    if not (place / "config.json").is_file():
        expected = "a model of the hub (ORG/NAME), or a folder with config.json, *.safetensors and a tokenizer"
        raise ConfigError([Problem("--model", wish.model, expected)])
    settings = model_settings(place / "config.json")
    tokenizer = place / "tokenizer_config.json"
    in_tokenizer = tokenizer.is_file() and "chat_template" in json.loads(tokenizer.read_text(encoding="utf-8"))
    chat = in_tokenizer or (place / "chat_template.jinja").is_file()
    encode = encoder(place, "chat" if chat else "plain") if find_spec("transformers") else None
    positions = min(settings.get("max_position_embeddings") or _DEFAULTS["positions"], _DEFAULTS["positions"])
    dtype = "float32" if wish.gpu_gib is None else None
    return _Model(str(settings.get("model_type")), chat, positions, dtype, encode)


def _hardware(wish: Wish, config: Config, folder: Path) -> dict[str, Any]:
    """The keys of the block `hardware` that are needed."""
    if wish.gpu_gib is None:
        return {"gpu_gib": None, "kv_cache_gib": 2}
    own = {"gpu_gib": wish.gpu_gib} if wish.gpu_gib != config.hardware.gpu_gib else {}
    try:
        shape = shape_of(config, folder)
    except ValueError:
        return own  # a model whose memory is not planned
    assert shape is not None
    setting, keys = Setting.of(config, _METHOD, shape), dict[str, Any]()
    for more in ({}, *LESS_MEMORY):
        keys |= more
        if max(phase.total for phase in phases(shape, replace(setting, **keys))) <= wish.gpu_gib * 2**30:
            return own | keys
    expected = f"a model that can be trained on GPUs of {wish.gpu_gib:g} GiB, or a larger --gpu-gib"
    raise ConfigError([Problem("--model", wish.model, expected)])


def _text(
    wish: Wish,
    read: Mapping[str, _Dataset],
    model: _Model,
    schedule: Mapping[str, Any],
    hardware: Mapping[str, Any],
    drawn: "Drawn | None" = None,
) -> str:
    """The configuration: the template of the task, without the lines that have no value."""
    datasets = {name: dataset.entry for name, dataset in read.items()}
    task, longest = datasets["train"]["task"], max(max(dataset.lengths) for dataset in read.values())
    # Half of the positions are for prompts where these were not measured, else at most three quarters.
    prompt = min(_MULTIPLE * math.ceil(longest / _MULTIPLE), 3 * model.positions // 4) or model.positions // 2
    response = min(_RESPONSE.get(task, _RESPONSE[SQL]), model.positions - prompt)
    scoring: dict[str, Any] | None = {"custom": {task: {"source": wish.scorer}}} if wish.scorer else None
    if drawn:
        scoring = scoring or {task: {"answer": drawn.rule}}
    if drawn and drawn.response_tokens:
        response = min(drawn.response_tokens, model.positions - prompt)
    prompts = {"template": None if model.chat else "plain", "max_tokens": prompt}
    name = None if wish.gpu_gib else "transformers"
    engine = {"name": name, "max_model_len": prompt + response, "dtype": model.dtype}
    values = {
        "run": re.sub(r"[^A-Za-z0-9_.-]+", "-", wish.name).strip("-._") or "run",
        "model": wish.model,
        "test": None,
        **datasets,
        "evaluated": "test" if "test" in datasets else "train",
        "scoring": scoring,
        "prompts": {key: value for key, value in prompts.items() if value},
        "engine": {key: value for key, value in engine.items() if value},
        "tokens": response,
        "threshold": 7 if model.kind.startswith("qwen") else 6,
        "dtype": model.dtype,
        "hardware": hardware or None,
        **schedule,
    }
    template = Path(__file__).with_name("templates") / ("math.yaml" if task == MATH else "sql.yaml")
    lines = template.read_text(encoding="utf-8").splitlines()
    absent = {f"${name}" for name, value in values.items() if value is None}
    kept = [line for line in lines if not absent & set(re.findall(r"\$\w+", line))]
    # `passes` is in a comment.
    flows = {name: value if name == "passes" else _flow(value) for name, value in values.items()}
    return Template("\n".join([*kept, ""])).substitute(flows)


def _schedule(task: str, rows: int, per_step: int) -> dict[str, Any]:
    """The steps of a training in 8 segments, of which every second is evaluated; in 2, for few questions."""
    if per_step >= _DEFAULTS["per_step"]:
        epochs = _EPOCHS.get(task, _EPOCHS[SQL])
        segment = max(round(epochs * rows / per_step / 8), 1)
        steps: dict[str, Any] = {"steps": 8 * segment, "segment": segment, "every": 2 * segment}
        none = dict.fromkeys(("questions", "stored"))
        return steps | none | {"passes": f"{epochs} passes over {rows} questions, as in the paper"}
    steps = {"steps": 16, "segment": 8, "every": 16, "questions": per_step, "stored": 2 * per_step}
    return steps | {"passes": "two to four passes over few questions; the paper has 208 steps of 128"}


def _flow(value: Any) -> str:
    """A value as YAML in one line."""
    options: dict[str, Any] = {"default_flow_style": True, "sort_keys": False, "allow_unicode": True, "width": math.inf}
    return yaml.safe_dump(value, **options).strip().removesuffix("\n...")
