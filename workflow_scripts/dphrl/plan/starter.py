"""`dphrl init`: a first configuration for a file of questions, a template (starter.yaml) with the values for it."""

import json
import math
import re
import shlex
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
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
from dphrl.hub import SMALL_FILES, data_file, model_name, snapshot
from dphrl.machine.progress import counted
from dphrl.model_config import model_settings
from dphrl.plan.describe import check_fits, shape_of
from dphrl.plan.memory import LESS_MEMORY, Setting, phases
from dphrl.text import visible

if TYPE_CHECKING:
    from dphrl.plan.look import Look

# The first rows decide the task.
_LOOKED_AT: Final = 200
# Most positions of a sequence, and questions of a step.
_POSITIONS, _PER_STEP = 20480, 128
# Limits of lengths are multiples of so many tokens.
_MULTIPLE: Final = 64
_METHOD: Final = "dph_js"


class _Paper(NamedTuple):
    """Settings of arXiv 2509.07430 (Table 7) for a task: tokens of a response, passes over the questions."""

    response: int
    epochs: int
    lr: float
    partition: dict[str, Any]
    evaluation: dict[str, Any]
    answer: str


_SQL: Final = _Paper(4096, 4, 1e-6, {"pef_min_correct": 8}, {}, "fenced")
_MATH: Final = _Paper(2048, 8, 2e-7, {"pef_min_correct": 6, "drop_all_wrong": True}, {"temperature": 0.6}, "boxed")


def init(options: Namespace) -> int:
    """Write a configuration that passes the checks of the workflow; print what was read, and the next commands.

    Args:
        options: of the command (cli.py); names of files are relative to the folder in which the workflow will run.

    Raises:
        ConfigError: a file or folder is not there, or the model fits on no number of GPUs.
        ValueError, OSError: a file of questions cannot be read or has no question, or `out` is there already.
    """
    out = options.out or Path(f"{Path(options.data).stem}.yaml")
    if (there := out.exists()) or not out.parent.is_dir():
        raise OSError(f"{out} is {'there already' if there else 'in no folder'}: name another file with --out")
    gpu_gib = None if options.cpu else options.gpu_gib
    model = _model(options.model)
    sources = {"train": options.data} | ({"test": options.test} if options.test else {})
    read = {name: _dataset(options, source, model) for name, source in sources.items()}
    # The largest power of two up to a quarter of the questions.
    per_step = min(_PER_STEP, 1 << (max(read["train"].rows // 4, 2).bit_length() - 1))

    def configured(hardware: Mapping[str, Any], looked: "Look | None" = None) -> tuple[str, Config]:
        values = {"run": re.sub(r"[^A-Za-z0-9_.-]+", "-", out.stem).strip("-._") or "run", "model": options.model}
        values |= _values(read, model, options.scorer, max(per_step, 2 * hardware.get("ranks", 1)), looked)
        engine, dtype = ("vllm", "bfloat16") if gpu_gib else ("transformers", "float32")
        flows = {name: _flow(value) for name, value in {**values, "engine": engine, "dtype": dtype}.items()}
        flows |= {"hardware": _flow(hardware), "passes": values["passes"]}
        flows["datasets"] = "\n".join(f"  {name}: {_flow(dataset.entry)}" for name, dataset in read.items())
        text = Template(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")).substitute(flows)
        return text, load_config(yaml.safe_load(text))

    text, config = configured({})
    if hardware := _hardware(gpu_gib, config):
        text, config = configured(hardware)
    check_files(config, Path())
    check_fits(config, Path())
    report = [line for dataset in read.values() for line in dataset.report(config)]
    if options.draw:
        from dphrl.plan.look import look  # with torch, which a first configuration does not need

        try:
            looked = look(config, Path())
        except (ValueError, OSError) as error:
            raise ValueError(f"{error}. To write a configuration without answers of the model: --no-draw") from error
        text, config = configured(hardware, looked)
        report += [looked.report(looked.best), f"  limit of responses: {config.train.max_tokens:,} tokens"]
    with out.open("x", encoding="utf-8") as file:
        file.write(text)
    name = shlex.quote(str(out))
    commands = [
        f"dphrl plan {name}" + (f" --slots {config.hardware.ranks}" if gpu_gib else ""),
        *([] if options.draw else [f"dphrl look {name}      # does the configuration fit the model's answers?"]),
        f"snakemake {'--profile profiles/gpu-node' if gpu_gib else '--cores 2'} --configfile {name}",
    ]
    next_steps = [f"  .venv/bin/{command}" for command in commands]
    print(visible("\n".join([*report, f"Written: {out}", "", "Next:", *next_steps])))
    return 0


def _task_of(source: str, rows: Sequence[Mapping[str, Any]], task: str | None, fields: Renames) -> str:
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


class _Dataset(NamedTuple):
    """A file of questions.

    Attributes:
        entry: its block in the configuration.
        rows: number of rows.
        lengths: tokens of each prompt.
        rejected: why the first row that is no prompt is none; empty if all are prompts.
    """

    entry: dict[str, Any]
    rows: int
    lengths: list[int]
    rejected: str

    @property
    def paper(self) -> _Paper:
        """The paper's settings for its task; those of SQL for a custom task."""
        return _MATH if self.entry["task"] == MATH else _SQL

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


class _Model(NamedTuple):
    """Template, longest sequence and tokenizer of a model: `encode` makes tokens of messages."""

    template: Literal["chat", "plain"]
    positions: int
    encode: Callable[[list[dict[str, str]]], Rendered]


def _dataset(options: Namespace, source: str, model: _Model) -> _Dataset:
    file, fields = data_file(source, Path()), dict(options.field)
    if not file.is_file():
        raise FileNotFoundError(f"{source}: there is no such file; expected questions in .jsonl, .json or .parquet")
    rows = read_source(file)
    task = _task_of(source, rows, options.task, fields)
    entry: dict[str, Any] = {"task": task, "source": source}
    databases = None
    if task == SQL:
        databases = Path(options.databases or Path(source).parent / "database")
        if not databases.is_dir():
            raise FileNotFoundError(
                f"{source}: expected its databases, {databases}/<db_id>/<db_id>.sqlite: name their folder with "
                "--databases"
            )
        entry |= {"databases": options.databases} if options.databases else {}
    entry |= {"fields": fields} if fields else {}
    try:
        made = prepare(rows, task, source, model.encode, sys.maxsize, fields=fields, databases=databases)
    except SourceError as error:
        raise ValueError(f"{error}. --field question=THEIRS names it") from None
    rejected = made.rejected.row(0, named=True)["detail"] if made.rejected.height else ""
    return _Dataset(entry, len(rows), made.prompts["prompt_token_ids"].list.len().to_list(), rejected)


def _model(name: str) -> _Model:
    hub = model_name(name)
    small = {"allow_patterns": [*SMALL_FILES], "ignore_patterns": ["*/*"]}
    place = snapshot(hub, small)[0] if hub else Path(name)
    if not (place / "config.json").is_file():
        expected = "a model of the hub (ORG/NAME), or a folder with config.json, *.safetensors and a tokenizer"
        raise ConfigError([Problem("--model", name, expected)])
    settings = model_settings(place / "config.json")
    tokenizer = place / "tokenizer_config.json"
    in_tokenizer = tokenizer.is_file() and "chat_template" in json.loads(tokenizer.read_text(encoding="utf-8"))
    chat = in_tokenizer or (place / "chat_template.jinja").is_file()
    template: Literal["chat", "plain"] = "chat" if chat else "plain"
    positions = min(settings.get("max_position_embeddings") or _POSITIONS, _POSITIONS)
    return _Model(template, positions, encoder(place, template))


def _hardware(gpu_gib: float | None, config: Config) -> dict[str, Any]:
    """The keys of the block `hardware`, with those that save memory as far as they are needed."""
    if gpu_gib is None:
        return {"gpu_gib": None, "kv_cache_gib": 2}
    own = {"gpu_gib": gpu_gib}
    try:
        shape = shape_of(config, Path())
    except ValueError:
        return own  # a model whose memory is not planned
    assert shape is not None
    setting, keys = Setting.of(config, _METHOD, shape), dict[str, Any]()
    for more in ({}, *LESS_MEMORY):
        keys |= more
        tried = replace(setting, hardware=setting.hardware.model_copy(update=keys))
        if max(phase.total for phase in phases(shape, tried)) <= gpu_gib * 2**30:
            return own | keys
    expected = f"a model that can be trained on GPUs of {gpu_gib:g} GiB, or a larger --gpu-gib"
    raise ConfigError([Problem("--model", str(config.policy.base), expected)])


def _values(
    read: Mapping[str, _Dataset], model: _Model, scorer: str | None, per_step: int, looked: "Look | None"
) -> dict[str, Any]:
    """Values of the template about questions, answers and their lengths, and about steps of so many questions."""
    train, longest = read["train"], max(max(dataset.lengths) for dataset in read.values())
    task, paper = train.entry["task"], train.paper
    # At most three quarters of the positions are for prompts.
    prompt = min(_MULTIPLE * math.ceil(longest / _MULTIPLE), 3 * model.positions // 4)
    response = min((looked and looked.response_tokens) or paper.response, model.positions - prompt)
    custom = {"custom": {task: {"source": scorer}}}
    # A training has 8 segments, of which every second is evaluated; for few questions 2 segments.
    segment, segments, passes = 8, 2, "two to four passes over few questions; the paper has 208 steps of 128"
    if per_step >= _PER_STEP:
        segment, segments = max(round(paper.epochs * train.rows / per_step / 8), 1), 8
        passes = f"{paper.epochs} passes over {train.rows} questions, as in the paper"
    return {
        "evaluated": "test" if "test" in read else "train",
        "scoring": custom if scorer else {task: {"answer": looked.best if looked else paper.answer}},
        "template": model.template,
        "prompt": prompt,
        "both": prompt + response,
        "tokens": response,
        "evaluation": {"max_tokens": response, **paper.evaluation},
        "partition": paper.partition,
        "lr": paper.lr,
        "steps": segments * segment,
        "segment": segment,
        "every": 2 * segment,
        "questions": per_step,
        "stored": 2 * per_step,
        "passes": passes,
    }


def _flow(value: Any) -> str:
    """A value as YAML in one line."""
    options: dict[str, Any] = {"default_flow_style": True, "sort_keys": False, "allow_unicode": True, "width": math.inf}
    return yaml.safe_dump(value, **options).strip().removesuffix("\n...")
