"""A first configuration for a file of questions: task and fields, then a template of the task with its values."""

import json
import math
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import yaml

from dphrl.config.blocks.data import MATH, SQL
from dphrl.config.config import Config
from dphrl.config.errors import ConfigError, Problem
from dphrl.config.load import load_config
from dphrl.config.places import check_files
from dphrl.data.fields import Fields, MalformedError, Renames
from dphrl.data.ground_truth import truth_of
from dphrl.data.prepare import prepare
from dphrl.data.records import SourceError, read_source
from dphrl.data.tokens import Rendered, encoder
from dphrl.hub import SMALL_FILES, data_name, model_name, one_file, snapshot
from dphrl.machine.progress import counted
from dphrl.model_config import model_settings
from dphrl.plan.describe import check_fits, shape_of
from dphrl.plan.memory import LESS_MEMORY, Setting, phases

if TYPE_CHECKING:
    from dphrl.plan.look import Look

_LOOKED_AT: Final = 200


def task_of(source: str, rows: Sequence[Mapping[str, Any]], task: str | None, fields: Renames) -> str:
    """The task of a file of questions.

    Args:
        task: the task, if it is known; then only its fields are looked for.
        fields: our name of a field -> the file's, where it is not a known one.

    Raises:
        ValueError: no task fits half of the first rows.
    """
    head, lookup, reasons = rows[:_LOOKED_AT], Fields(fields), list[str]()
    for name in (task,) if task else (SQL, MATH):
        fitting, reason = 0, ""
        for row in head:
            try:
                truth_of(row, name, lookup)
                fitting += 1
            except MalformedError as error:
                reason = reason or str(error)
        if 2 * fitting >= len(head):
            return name
        reasons.append(f"{name}: {reason}")
    expected = "; ".join(reasons)
    raise ValueError(
        f"{source}: its fields are {', '.join(map(str, rows[0]))}, and no task has them ({expected}). Name them, for "
        "instance --field question=THEIRS --field answer=THEIRS; another task needs --task NAME --scorer FILE "
        "(docs/datasets.md, docs/how-to/own-scorer.md)"
    )


_METHOD = "dph_js"
_DEFAULTS = {"positions": 20480, "per_step": 128}
# Table 7 of arXiv 2509.07430: length of a response and passes over the questions. Other tasks use the values of SQL.
_RESPONSE, _EPOCHS = {SQL: 4096, MATH: 2048}, {SQL: 4, MATH: 8}
# Where an answer stands, as in a run without the key.
_RULE = {SQL: "fenced", MATH: "boxed"}
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
        draw: draw a few answers, and set the place of an answer and the limit of responses by them.
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
    draw: bool = True


def next_steps(out: Path, wish: Wish, ranks: int) -> Iterator[str]:
    """The commands that follow: the plan, a look if there was none, and the run, which stops where it cannot train."""
    file = shlex.quote(str(out))
    yield f"  .venv/bin/dphrl plan {file}" + (f" --slots {ranks}" if wish.gpu_gib else "")
    if not wish.draw:
        yield f"  .venv/bin/dphrl look {file}      # does the configuration fit the model's answers?"
    yield f"  .venv/bin/snakemake {'--profile profiles/gpu-node' if wish.gpu_gib else '--cores 2'} --configfile {file}"


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

    def configured(hardware: Mapping[str, Any], looked: "Look | None" = None) -> tuple[str, Config]:
        schedule = _schedule(task, rows, max(per_step, 2 * hardware.get("ranks", 1)))
        text = _text(wish, read, model, schedule, hardware, looked)
        return text, load_config(yaml.safe_load(text))

    text, config = configured({})
    if hardware := _hardware(wish, config, folder):
        text, config = configured(hardware)
    check_files(config, folder)
    check_fits(config, folder)
    report = [line for dataset in read.values() for line in dataset.report(config)]
    if wish.draw:
        from dphrl.plan.look import look  # with torch, which a first configuration does not need

        try:
            looked = look(config, folder)
        except (ValueError, OSError) as error:
            raise ValueError(f"{error}. To write a configuration without answers of the model: --no-draw") from error
        text, config = configured(hardware, looked)
        report.append(looked.report(looked.best))
        report.append(f"  limit of responses: {config.train.max_tokens:,} tokens")
    return text, "\n".join(report), config.hardware.ranks


class _Dataset(NamedTuple):
    """A file of questions: its entry in the configuration, its number of rows, and what became of them.

    `lengths` are the tokens of each prompt; `rejected` is why the first row that is none is none.
    """

    entry: dict[str, Any]
    rows: int
    lengths: list[int]
    rejected: str

    def report(self, config: Config) -> Iterator[str]:
        """Lines on its rows, and on prompts that the configuration leaves out."""
        yield (
            f"{self.entry['source']}: {self.rows} rows, task {self.entry['task']}; "
            f"{counted(len(self.lengths), 'prompt')}{f' (rejected: {self.rejected}, ...)' if self.rejected else ''}, "
            f"at most {max(self.lengths)} tokens"
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
    task = task_of(source, rows, wish.task, wish.fields)
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
    entry |= {"fields": dict(wish.fields)} if wish.fields else {}
    try:
        made = prepare(rows, task, source, model.encode, sys.maxsize, fields=wish.fields, databases=databases)
    except SourceError as error:
        raise ValueError(f"{error}. --field question=THEIRS names it") from None
    rejected = made.rejected.row(0, named=True)["detail"] if made.rejected.height else ""
    return _Dataset(entry, len(rows), made.prompts["prompt_token_ids"].list.len().to_list(), rejected)


@dataclass(frozen=True)
class _Model:
    """Of a model: the template of its prompts, how long a sequence may be, and what makes tokens of messages."""

    template: Literal["chat", "plain"]
    positions: int
    encode: Callable[[list[dict[str, str]]], Rendered]


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
    template: Literal["chat", "plain"] = "chat" if chat else "plain"
    positions = min(settings.get("max_position_embeddings") or _DEFAULTS["positions"], _DEFAULTS["positions"])
    return _Model(template, positions, encoder(place, template))


def _hardware(wish: Wish, config: Config, folder: Path) -> dict[str, Any]:
    """The keys of the block `hardware`, with those that save memory as far as they are needed."""
    if wish.gpu_gib is None:
        return {"gpu_gib": None, "kv_cache_gib": 2}
    own = {"gpu_gib": wish.gpu_gib}
    try:
        shape = shape_of(config, folder)
    except ValueError:
        return own  # a model whose memory is not planned
    assert shape is not None
    setting, keys = Setting.of(config, _METHOD, shape), dict[str, Any]()
    for more in ({}, *LESS_MEMORY):
        keys |= more
        tried = replace(setting, hardware=setting.hardware.model_copy(update=keys))
        if max(phase.total for phase in phases(shape, tried)) <= wish.gpu_gib * 2**30:
            return own | keys
    expected = f"a model that can be trained on GPUs of {wish.gpu_gib:g} GiB, or a larger --gpu-gib"
    raise ConfigError([Problem("--model", wish.model, expected)])


def _text(
    wish: Wish,
    read: Mapping[str, _Dataset],
    model: _Model,
    schedule: Mapping[str, Any],
    hardware: Mapping[str, Any],
    looked: "Look | None" = None,
) -> str:
    """The configuration: the template of the task with its values."""
    datasets = {name: dataset.entry for name, dataset in read.items()}
    task, longest = datasets["train"]["task"], max(max(dataset.lengths) for dataset in read.values())
    # At most three quarters of the positions are for prompts.
    prompt = min(_MULTIPLE * math.ceil(longest / _MULTIPLE), 3 * model.positions // 4)
    response = min(_RESPONSE.get(task, _RESPONSE[SQL]), model.positions - prompt)
    if looked and looked.response_tokens:
        response = min(looked.response_tokens, model.positions - prompt)
    custom = {"custom": {task: {"source": wish.scorer}}}
    engine, dtype = ("vllm", "bfloat16") if wish.gpu_gib else ("transformers", "float32")
    values = {
        "run": re.sub(r"[^A-Za-z0-9_.-]+", "-", wish.name).strip("-._") or "run",
        "model": wish.model,
        "evaluated": "test" if "test" in datasets else "train",
        "scoring": custom if wish.scorer else {task: {"answer": looked.best if looked else _RULE[task]}},
        "template": model.template,
        "prompt": prompt,
        "engine": engine,
        "dtype": dtype,
        "both": prompt + response,
        "tokens": response,
        "hardware": hardware,
        **schedule,
    }
    template = Path(__file__).with_name("templates") / ("math.yaml" if task == MATH else "sql.yaml")
    lines = {
        "datasets": "\n".join(f"  {name}: {_flow(entry)}" for name, entry in datasets.items()),
        "passes": schedule["passes"],
    }
    flows = {name: _flow(value) for name, value in values.items()}
    return Template(template.read_text(encoding="utf-8")).substitute(flows | lines)


def _schedule(task: str, rows: int, per_step: int) -> dict[str, Any]:
    """The steps of a training in 8 segments, of which every second is evaluated; in 2, for few questions."""
    if per_step >= _DEFAULTS["per_step"]:
        epochs = _EPOCHS.get(task, _EPOCHS[SQL])
        segment = max(round(epochs * rows / per_step / 8), 1)
        steps = {"steps": 8 * segment, "segment": segment, "every": 2 * segment}
        passes = f"{epochs} passes over {rows} questions, as in the paper"
    else:
        steps = {"steps": 16, "segment": 8, "every": 16}
        passes = "two to four passes over few questions; the paper has 208 steps of 128"
    return {**steps, "questions": per_step, "stored": 2 * per_step, "passes": passes}


def _flow(value: Any) -> str:
    """A value as YAML in one line."""
    options: dict[str, Any] = {"default_flow_style": True, "sort_keys": False, "allow_unicode": True, "width": math.inf}
    return yaml.safe_dump(value, **options).strip().removesuffix("\n...")
