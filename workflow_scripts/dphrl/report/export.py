"""Write the questions of D_exp, the stored responses of D_pef and the judge of a run for another trainer."""

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import polars as pl
from jinja2 import TemplateError
from safetensors import safe_open

from dphrl.config.blocks.data import MATH, SQL
from dphrl.data.tokens import load_tokenizer
from dphrl.store.files import replacing_folder, sha256_file
from dphrl.store.kinds import KINDS, fill
from dphrl.store.manifest import folder_of
from dphrl.store.parquet import check_listed, read_footer, read_table

Row = dict[str, Any]

# A prompt as `prompts.template: plain` makes it, for verl, which knows messages only. Without quotes, so that a shell
# and Hydra pass it on unchanged.
_PLAIN: Final = "{% for message in messages %}{{ message.content }}{% endfor %}"
_WORKERS: Final = 4
# The copy of a custom scorer.
_SCORER: Final = "scorer.py"


@dataclass(frozen=True)
class Order:
    """The arguments of `dphrl export`.

    Attributes:
        run: folder of the run.
        to: form of the prompts.
        out: a new or empty folder.
        draw: draw of stage 1.
        tokenizer: folder of the trainer's tokenizer; None: the tokenizer of the run's base.
        databases: folder of the databases; None: the embedded world, or a task without databases.
        scorer: file of a custom scorer; None: a built-in task.
        force: write prompts that get other tokens too.
    """

    run: Path
    to: Literal["trl", "verl", "jsonl"]
    out: Path
    draw: str = "main"
    tokenizer: Path | None = None
    databases: Path | None = None
    scorer: Path | None = None
    force: bool = False


def export(order: Order) -> str:
    """Write the folder; returns a summary.

    Files: prompts.jsonl (for verl prompts.parquet), rehearsal.jsonl, reward.py, scorer.json; for verl with plain
    prompts chat_template.jinja; for a custom scorer scorer.py.

    Raises:
        ValueError: the run lacks a stage, a file is not the run's, or the tokens differ; the text names the next step.
        OSError: a file cannot be read or written.
    """
    if order.out.exists() and (not order.out.is_dir() or any(order.out.iterdir())):
        raise ValueError(f"{order.out}: not an empty folder; name another one with --out, or remove it")
    index = _index(order)
    footer = read_footer(index)
    dataset = Path(footer["inputs"]["prompts"]["paths"][0]).stem
    places = {"dataset": dataset, "draw": order.draw}
    paths = {name: order.run / fill(KINDS[name].path, places) for name in ("partition", "prompts", "gold")}
    for name in ("partition", "prompts"):
        if read_footer(paths[name])["digest"] != footer["inputs"][name]["digest"]:
            raise ValueError(f"{index}: made from another {paths[name]}; run snakemake again with the target reference")
    rows = _questions(paths)
    judge = _judge(order, paths["gold"])
    plain = read_footer(paths["prompts"])["config"]["prompts"]["template"] == "plain"
    # The prompts of jsonl are token ids, which no trainer makes again.
    template, changed = (None, 0) if order.to == "jsonl" else _check_tokens(order, rows, plain)
    with replacing_folder(order.out) as folder:
        if order.to == "verl":
            pl.DataFrame([_for_verl(row, dataset, judge["task"]) for row in rows]).write_parquet(
                folder / "prompts.parquet"
            )
        elif order.to == "trl":
            _write_lines(folder / "prompts.jsonl", (_for_trl(row, plain) for row in rows))
        else:
            names = ("prompt_id", "messages", "prompt_ids", "ground_truth")
            _write_lines(folder / "prompts.jsonl", ({name: row[name] for name in names} for row in rows))
        _write_lines(folder / "rehearsal.jsonl", _stored(index))
        if template is not None:
            (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
        if order.scorer is not None:
            shutil.copyfile(order.scorer, folder / _SCORER)
        (folder / "scorer.json").write_text(json.dumps(judge, indent=1) + "\n", encoding="utf-8")
        shutil.copyfile(Path(__file__).with_name("reward.py"), folder / "reward.py")
    lines = [
        f"{len(rows)} questions of D_exp, {footer['rows']} stored responses of D_pef ({dataset}, draw {order.draw})",
        *([f"{changed} of these questions get other tokens in the trainer (--force)"] if changed else []),
        f"Written: {order.out}; docs/with-your-trainer.md says how a trainer uses it",
    ]
    return "\n".join(lines)


def _index(order: Order) -> Path:
    """The table of the stored responses of a draw."""
    if not order.run.is_dir():
        raise ValueError(f"{order.run}: no such folder; expected that of a run, results/<run>")
    index = order.run / fill(KINDS["index"].path, {"draw": order.draw})
    drawn = sorted(path.parts[-3] for path in order.run.glob(fill(KINDS["index"].path, {"draw": "*"})))
    if not drawn:
        target = "make run CONFIG=<its configuration> TARGET=reference"
        raise ValueError(f"{order.run}: no stored responses; make them first: {target}")
    if order.draw not in drawn:
        raise ValueError(f"{order.run}: no stored responses of draw {order.draw}; --draw is one of {', '.join(drawn)}")
    return index


def _questions(paths: dict[str, Path]) -> list[Row]:
    """The rows of D_exp in key order: prompt_id, messages, prompt_ids, ground_truth (JSON text), source_index."""
    partition = read_table(paths["partition"], "partition")
    empty = [name for name in ("exp", "pef") if not partition.filter(subset=name).height]
    if empty:
        change = "raise" if empty[0] == "exp" else "lower"
        raise ValueError(
            f"{paths['partition']}: D_{empty[0]} is empty; {change} partition.pef_min_correct and run snakemake again"
        )
    prompts, gold = (read_table(paths[name], name) for name in ("prompts", "gold"))
    chosen = partition.filter(subset="exp").join(prompts, on="prompt_id").join(gold, on="prompt_id").sort("prompt_id")
    return [
        {
            "prompt_id": row["prompt_id"],
            "messages": json.loads(row["messages"]),
            "prompt_ids": row["prompt_token_ids"],
            "ground_truth": row["ground_truth"],
            "source_index": row["source_index"],
        }
        for row in chosen.iter_rows(named=True)
    ]


def _check_tokens(order: Order, rows: Sequence[Row], plain: bool) -> tuple[str | None, int]:
    """Tokenise the prompts as the trainer does, and compare with the tokens of the run.

    Returns:
        The chat template to pass to the trainer, None where it needs none; and how many prompts differ.

    Raises:
        ValueError: some differ, and `force` is off.
    """
    folder = order.tokenizer or folder_of(order.run / KINDS["base"].path)
    tokenizer = load_tokenizer(folder)
    template = None
    if plain and order.to == "verl":
        starts = tokenizer.bos_token_id is not None and tokenizer("")["input_ids"][:1] == [tokenizer.bos_token_id]
        template = ("{{ bos_token }}" if starts else "") + _PLAIN
    elif not plain and tokenizer.chat_template is None:
        raise ValueError(f"{folder}: no chat template, which the run's base has; name the base's folder: --tokenizer")

    def trainer_ids(row: Row) -> list[int]:
        if plain and order.to == "trl":
            return list(tokenizer(_for_trl(row, plain)["prompt"])["input_ids"])
        options: dict[str, Any] = {"add_generation_prompt": True, "tokenize": True, "return_dict": True}
        made = tokenizer.apply_chat_template([row["messages"]], chat_template=template, **options)
        return list(made["input_ids"][0])

    try:
        changed = [row["prompt_id"] for row in rows if trainer_ids(row) != row["prompt_ids"]]
    except TemplateError as error:
        raise ValueError(f"{folder}: its chat template cannot render a prompt ({error}); mend it") from error
    if changed and not order.force:
        raise ValueError(
            f"{folder}: {len(changed)} of {len(rows)} prompts get other tokens from it than in the run, first"
            f" {changed[0]}; name the tokenizer of the run's base with --tokenizer, or write them as they are: --force"
        )
    return template, len(changed)


def _judge(order: Order, gold: Path) -> dict[str, Any]:
    """The content of scorer.json: task, settings, folder of the databases, file of a custom scorer, processes."""
    footer, databases = read_footer(gold), order.databases
    task, inputs = footer["config"]["task"], footer["inputs"]
    if task == SQL and "databases" in inputs:
        if databases is None:
            raise ValueError("the run has SQL on your databases; name their folder, as in the run: --databases DIR")
        listed = order.run / inputs["databases"]["paths"][0]
        for name, size, _ in read_table(listed, "databases").iter_rows():
            # Sizes only: to hash the databases of BIRD takes minutes.
            if not (databases / name).is_file() or (databases / name).stat().st_size != size:
                raise ValueError(f"{databases / name}: missing, or not the database of the run ({size} bytes)")
    elif task == SQL:
        databases = databases or order.run / "toy" / "databases"
    elif task != MATH:
        if order.scorer is None:
            raise ValueError(f"the task {task} has a custom scorer; name its file: --scorer FILE")
        if sha256_file(order.scorer) != inputs["scorer"]["digest"]:
            raise ValueError(f"{order.scorer}: not the scorer of the run; restore it, or run snakemake again")
    return {
        "task": task,
        "settings": footer["config"]["scorer"],
        "databases": None if databases is None else str(databases.resolve()),
        "source": None if order.scorer is None else _SCORER,
        "workers": _WORKERS,
    }


def _stored(index: Path) -> Iterator[Row]:
    """The stored responses in their order, with the reference's top-K tokens if the run stored them."""
    tensors = index.with_name("responses.safetensors")
    check_listed(tensors, sha256_file(tensors), index)
    with safe_open(tensors, framework="numpy") as file:
        held = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - no mapping
        for row in read_table(index, "reference_index").iter_rows(named=True):
            start, at = row["start"], row["response_start"]
            middle, length = start + row["prompt_length"], row["response_length"]
            values = {
                "prompt_ids": held["token_ids"][start:middle],
                "response_ids": held["token_ids"][middle : middle + length],
                "ref_logprobs": held["logprobs"][at : at + length],
                **{name: held[name][at : at + length] for name in ("topk_ids", "topk_logprobs") if name in held},
            }
            # A float32 becomes the float64 of the same value, whose digits JSON keeps.
            yield {"prompt_id": row["prompt_id"], **{name: value.tolist() for name, value in values.items()}}


def _for_trl(row: Row, plain: bool) -> Row:
    """A row of TRL: a text, which the tokenizer takes as it is, or messages, which get the chat template."""
    prompt = "".join(message["content"] for message in row["messages"]) if plain else row["messages"]
    return {"prompt": prompt, "ground_truth": row["ground_truth"], "prompt_id": row["prompt_id"]}


def _for_verl(row: Row, dataset: str, task: str) -> Row:
    """A row of verl's RLHFDataset."""
    return {
        "data_source": dataset,
        "prompt": row["messages"],
        "ability": task,
        "reward_model": {"style": "rule", "ground_truth": row["ground_truth"]},
        "extra_info": {"index": row["source_index"], "prompt_id": row["prompt_id"]},
    }


def _write_lines(path: Path, rows: Iterable[Row]) -> None:
    """Write JSONL."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
