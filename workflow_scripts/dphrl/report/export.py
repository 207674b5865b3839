"""Write the questions of D_exp, the stored responses of D_pef and the judge of a run for another trainer."""

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl
from safetensors import safe_open

from dphrl.config.blocks.data import MATH, SQL
from dphrl.data.partition_counts import shortage
from dphrl.data.tokens import load_tokenizer
from dphrl.store.files import replacing_folder, sha256_file
from dphrl.store.kinds import KINDS, fill
from dphrl.store.manifest import folder_of
from dphrl.store.parquet import check_listed, read_footer, read_table

Row = dict[str, Any]

# A prompt as `prompts.template: plain` makes it, for trainers that know messages only. Without quotes, so that a shell
# and Hydra pass it on unchanged.
_PLAIN: Final = "{% for message in messages %}{{ message.content }}{% endfor %}"
_WORKERS: Final = 4
# The copy of a custom scorer.
_SCORER: Final = "scorer.py"


def export(run: Path, out: Path, draw: str = "main", databases: Path | None = None, scorer: Path | None = None) -> str:
    """Write the folder; returns a summary.

    Files: prompts.parquet, rehearsal.jsonl, reward.py, scorer.json; with plain prompts chat_template.jinja; for a
    custom scorer scorer.py.

    Args:
        run: folder of the run.
        out: a new or empty folder.
        draw: draw of stage 1.
        databases: folder of the databases; None: the embedded world, or a task without databases.
        scorer: file of a custom scorer; None: a built-in task.

    Raises:
        ValueError: the run lacks the stored responses, or a file is not the run's; the text names the next step.
        OSError: a file cannot be read or written.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{out}: not an empty folder; name another one with --out, or remove it")
    index = run / fill(KINDS["index"].path, {"draw": draw, "stored": "reference"})
    if not index.is_file():
        target = "make run CONFIG=<its configuration> TARGET=reference"
        raise ValueError(f"{index}: no such file; make the stored responses of this draw first: {target}")
    footer = read_footer(index)
    dataset = Path(footer["inputs"]["prompts"]["paths"][0]).stem
    places = {"dataset": dataset, "draw": draw}
    paths = {name: run / fill(KINDS[name].path, places) for name in ("partition", "prompts", "gold")}
    for name in ("partition", "prompts"):
        if read_footer(paths[name])["digest"] != footer["inputs"][name]["digest"]:
            raise ValueError(f"{index}: made from another {paths[name]}; run snakemake again with the target reference")
    partition, prompts, gold = (read_table(paths[name], name) for name in ("partition", "prompts", "gold"))
    if lacking := shortage(partition.lazy()):
        raise ValueError(f"{paths['partition']}: {lacking}")
    chosen = partition.filter(subset="exp").join(prompts, on="prompt_id").join(gold, on="prompt_id").sort("prompt_id")
    rows = [_row(row, dataset) for row in chosen.iter_rows(named=True)]
    config = read_footer(paths["prompts"])["config"]
    judge = _judge(run, paths["gold"], databases, scorer) | {"thoughts": config["thoughts"]}
    plain = config["prompts"]["template"] == "plain"
    template, changed = _trainer_tokens(folder_of(run / KINDS["base"].path), rows, chosen["prompt_token_ids"], plain)
    with replacing_folder(out) as folder:
        pl.DataFrame(rows).write_parquet(folder / "prompts.parquet")
        with (folder / "rehearsal.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(row, allow_nan=False) + "\n" for row in _stored(index))
        if template is not None:
            (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
        if scorer is not None:
            shutil.copyfile(scorer, folder / _SCORER)
        (folder / "scorer.json").write_text(json.dumps(judge, indent=1) + "\n", encoding="utf-8")
        shutil.copyfile(Path(__file__).with_name("reward.py"), folder / "reward.py")
    lines = [
        f"{len(rows)} questions of D_exp, {footer['rows']} stored responses of D_pef ({dataset}, draw {draw})",
        *([f"{changed} of these questions get other tokens in the trainer than in the run"] if changed else []),
        f"Written: {out}; docs/with-your-trainer.md says how a trainer uses it",
    ]
    return "\n".join(lines)


def _row(row: Row, dataset: str) -> Row:
    """A question: TRL's reward function gets all columns; verl reads those from `data_source` on."""
    return {
        "prompt_id": row["prompt_id"],
        "prompt": json.loads(row["messages"]),
        "ground_truth": row["ground_truth"],
        "thought_open": row["thought_open"],
        "data_source": dataset,
        "reward_model": {"style": "rule", "ground_truth": row["ground_truth"]},
        # Else verl takes index 0 for every question.
        "extra_info": {"index": row["source_index"], "thought_open": row["thought_open"]},
    }


def _trainer_tokens(base: Path, rows: Sequence[Row], prompt_ids: pl.Series, plain: bool) -> tuple[str | None, int]:
    """Tokenise the prompts as a trainer does, and compare with the tokens of the run.

    Returns:
        The chat template to pass to the trainer, None where the base's own is right; and how many prompts differ.
    """
    tokenizer = load_tokenizer(base)
    template = None
    if plain:
        starts = tokenizer.bos_token_id is not None and tokenizer("")["input_ids"][:1] == [tokenizer.bos_token_id]
        template = ("{{ bos_token }}" if starts else "") + _PLAIN
    # Unlike the run, a trainer renders a template with today's date.
    options: dict[str, Any] = {"add_generation_prompt": True, "tokenize": True, "return_dict": True}
    made = [tokenizer.apply_chat_template(row["prompt"], chat_template=template, **options) for row in rows]
    return template, sum(
        list(ours["input_ids"]) != list(ids) for ours, ids in zip(made, prompt_ids.to_list(), strict=True)
    )


def _judge(run: Path, gold: Path, databases: Path | None, scorer: Path | None) -> dict[str, Any]:
    """The content of scorer.json: task, settings, folder of the databases, file of a custom scorer, processes."""
    footer = read_footer(gold)
    task, inputs = footer["config"]["task"], footer["inputs"]
    if task == SQL and "databases" in inputs:
        if databases is None:
            raise ValueError("the run has SQL on your databases; name their folder, as in the run: --databases DIR")
        listed = run / inputs["databases"]["paths"][0]
        for name, size, _ in read_table(listed, "databases").iter_rows():
            # Sizes only: to hash the databases of BIRD takes minutes.
            if not (databases / name).is_file() or (databases / name).stat().st_size != size:
                raise ValueError(f"{databases / name}: missing, or not the database of the run ({size} bytes)")
    elif task == SQL:
        databases = databases or run / "toy" / "databases"
    elif task != MATH:
        if scorer is None:
            raise ValueError(f"the task {task} has a custom scorer; name its file: --scorer FILE")
        if sha256_file(scorer) != inputs["scorer"]["digest"]:
            raise ValueError(f"{scorer}: not the scorer of the run; restore it, or run snakemake again")
    return {
        "task": task,
        "settings": footer["config"]["scorer"],
        "databases": None if databases is None else str(databases.resolve()),
        "source": None if scorer is None else _SCORER,
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
