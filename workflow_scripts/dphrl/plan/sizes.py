"""How many prompts a run has, and how long prompts and responses are: measured where a stage has run, else assumed."""

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from dphrl.config.blocks.datasets import TOY
from dphrl.config.config import Config
from dphrl.layout.names import BASE
from dphrl.layout.run import Layout
from dphrl.tasks.source import read_source

# Tokens of a prompt and of a response: of the toy, and by task of real models (BIRD's prompts hold whole schemas).
_TOY = {"sql": (41.0, 20.0), "math": (22.0, 11.0)}
_REAL = {"sql": (3000.0, 400.0), "math": (150.0, 1000.0)}
_OTHER = (500.0, 500.0)
# Prompts of a dataset whose file is not there yet.
ASSUMED_PROMPTS = 1000
# The share of the training prompts that becomes D_pef, before the partition is known.
_PEF = 0.4


@dataclass(frozen=True)
class Sizes:
    """Counts and mean lengths in tokens, by dataset.

    Attributes:
        prompts: prompts of each dataset.
        prompt_tokens, response_tokens: mean lengths.
        pef: prompts of D_pef.
        measured: datasets whose lengths are those of drawn responses.
        absent: files of questions that are not there, of which a number of prompts is assumed.
    """

    prompts: dict[str, int]
    prompt_tokens: dict[str, float]
    response_tokens: dict[str, float]
    pef: float
    measured: frozenset[str]
    absent: tuple[str, ...] = ()


def sizes(config: Config, folder: Path) -> Sizes:
    """The sizes of a run, whose files and datasets are looked for in `folder`."""
    layout, train = Layout(config), config.train_dataset
    counts, asked, answered, measured = {}, {}, {}, set()
    for name, dataset in config.datasets.items():
        plan = "presample" if name == train else "evaluate"
        prompt, response = (_TOY if dataset.source == TOY else _REAL).get(dataset.task, _OTHER)
        prompts = folder / layout.path("prompts", dataset=name)
        drawn = [folder / path for path in layout.shards("rollouts", BASE, name, plan)]
        counts[name], asked[name] = _rows(config, name, folder), min(prompt, config.prompts.max_tokens)
        answered[name] = min(response, getattr(config.sampling, plan).max_tokens)
        if prompts.exists():
            counts[name], asked[name] = _count_and_mean([prompts], "prompt_token_ids")
        if all(path.exists() for path in drawn):
            answered[name] = _count_and_mean(drawn, "token_ids")[1]
            measured.add(name)
    final, pef = folder / layout.path("partition"), _PEF * counts[train]
    if final.exists():
        pef = pl.scan_parquet(final).filter(subset="pef").select(pl.len()).collect().item()
    absent = tuple(
        dataset.source
        for name, dataset in config.datasets.items()
        if not (folder / layout.path("prompts", dataset=name)).exists() and not _there(dataset.source, folder)
    )
    return Sizes(counts, asked, answered, pef, frozenset(measured), absent)


def _there(source: str, folder: Path) -> bool:
    return source == TOY or (folder / source).exists()


def _rows(config: Config, name: str, folder: Path) -> int:
    """Rows of a dataset's file, each of which becomes at most one prompt; an assumed number without the file."""
    source = config.datasets[name].source
    if source == TOY:
        return int(getattr(config.toy and config.toy.questions, name))
    return len(read_source(folder / source)) if _there(source, folder) else ASSUMED_PROMPTS


def _count_and_mean(tables: list[Path], column: str) -> tuple[int, float]:
    """How many rows the tables have, and how many tokens their lists hold on average."""
    length = pl.col(column).list.len()
    count, mean = pl.scan_parquet(tables).select(count=pl.len(), mean=length.mean()).collect().row(0)
    return count, mean or 0.0
