"""Prompts that training and evaluation share."""

import json
import unicodedata
from collections.abc import Mapping
from typing import Final

import polars as pl


def overlap(train_prompts: pl.DataFrame, other: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """The prompts of other datasets that ask what a training prompt asks.

    System messages are left aside: they say how to answer, and two datasets seldom say it alike. A SQL prompt holds
    its database's schema, so the same question about another database is another prompt.

    Args:
        train_prompts: prompt_id, messages (JSON) of the training dataset.
        other: the same of each other dataset, by name.

    Returns:
        prompt_id str (of the other dataset's prompt), dataset str, kind str: `exact` (the same texts) or `normalised`
        (the same letters, digits and signs, whatever their case, width, punctuation and spacing); sorted by key.
    """
    exact = {_texts(messages) for messages in train_prompts["messages"]}
    normalised = {_folded(texts) for texts in exact}
    found = []
    for dataset, prompts in sorted(other.items()):
        for key, messages in prompts.select("prompt_id", "messages").iter_rows():
            texts = _texts(messages)
            if texts in exact:
                found.append((key, dataset, "exact"))
            elif _folded(texts) in normalised:
                found.append((key, dataset, "normalised"))
    schema = {"prompt_id": pl.String(), "dataset": pl.String(), "kind": pl.String()}
    return pl.DataFrame(found, schema=schema, orient="row").sort("prompt_id", "dataset")


class _Kept(dict[int, str]):
    """What a character counts for. Signs of arithmetic and comparison are kept: they change the question."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        kept = character.isalnum() or unicodedata.category(character) == "Sm" or character in "-*/%^"
        self[code] = character if kept else ""
        return self[code]


_KEPT: Final = _Kept()


def _texts(messages: str) -> tuple[str, ...]:
    return tuple(message["content"] for message in json.loads(messages) if message["role"] != "system")


def _folded(texts: tuple[str, ...]) -> str:
    return unicodedata.normalize("NFKC", " ".join(texts)).casefold().translate(_KEPT)
