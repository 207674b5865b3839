"""How many prompts a run has, and how long prompts and responses are: measured where a stage has run, else assumed."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from dphrl.config.blocks.data import TOY
from dphrl.config.config import Config
from dphrl.layout.names import BASE, DRAW
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
        share_of_rounds: the share of the `dynamic_sampling_rounds` of a method that a step uses.
    """

    prompts: dict[str, int]
    prompt_tokens: dict[str, float]
    response_tokens: dict[str, float]
    pef: float
    measured: frozenset[str]
    absent: tuple[str, ...] = ()
    share_of_rounds: float = 0.5


def sizes(config: Config, folder: Path) -> Sizes:
    """The sizes of a run, whose files and datasets are looked for in `folder`."""
    layout, train = Layout(config), config.train_dataset
    counts, asked, answered, measured = {}, {}, {}, set()
    for name in config.datasets:
        plan = "presample" if name == train else "evaluate"
        _, response = _assumed(config, name)
        of_base = (
            layout.drawn_shards("drawn_rollouts", plan) if name == train else layout.shards("rollouts", BASE, name)
        )
        drawn = [folder / path for path in of_base]
        counts[name], asked[name] = prompts_of(config, name, folder)
        answered[name] = min(response, getattr(config.sampling, plan).max_tokens)
        if all(path.exists() for path in drawn):
            answered[name] = _count_and_mean(drawn, "token_ids")[1]
            measured.add(name)
    final, pef = folder / layout.path("partition", draw=DRAW), _PEF * counts[train]
    if final.exists():
        pef = pl.scan_parquet(final).filter(subset="pef").select(pl.len()).collect().item()
    absent = tuple(
        dataset.source
        for name, dataset in config.datasets.items()
        if not (folder / layout.path("prompts", dataset=name)).exists() and not _there(dataset.source, folder)
    )
    return Sizes(counts, asked, answered, pef, frozenset(measured), absent)


def prompts_of(config: Config, name: str, folder: Path) -> tuple[int, float]:
    """How many prompts a dataset has, and their mean length in tokens: of its table, else as many as its file has rows.

    Raises `OSError` or `ValueError` for a file that cannot be read.
    """
    table = folder / Layout(config).path("prompts", dataset=name)
    if table.exists():
        return _count_and_mean([table], "prompt_token_ids")
    return _rows(config, name, folder), min(_assumed(config, name)[0], config.prompts.max_tokens)


def _assumed(config: Config, name: str) -> tuple[float, float]:
    """Tokens of a prompt and of a response of a dataset."""
    dataset = config.datasets[name]
    return (_TOY if dataset.source == TOY else _REAL).get(dataset.task, _OTHER)


def _there(source: str, folder: Path) -> bool:
    return source == TOY or (folder / source).exists()


def _rows(config: Config, name: str, folder: Path) -> int:
    """Rows of a dataset's file, each of which becomes at most one prompt; an assumed number without the file."""
    source = config.datasets[name].source
    if source == TOY:
        return int(getattr(config.toy and config.toy.questions, name))
    if not _there(source, folder):
        return ASSUMED_PROMPTS
    if source.endswith(".parquet"):
        # Its footer has the number: DAPO-17k has 1.8 million rows, which are read in half a minute.
        with suppress(pl.exceptions.PolarsError):
            return int(pl.scan_parquet(folder / source, glob=False).select(pl.len()).collect().item())
    return len(read_source(folder / source))


def _count_and_mean(tables: list[Path], column: str) -> tuple[int, float]:
    """How many rows the tables have, and how many tokens their lists hold on average."""
    length = pl.col(column).list.len()
    count, mean = pl.scan_parquet(tables).select(count=pl.len(), mean=length.mean()).collect().row(0)
    return count, mean or 0.0
