"""The keys of a configuration, from its models: for the generated documentation, and to name the nearest key."""

from collections.abc import Iterator, Sequence
from typing import Any, get_args, get_origin

from dphrl.config.blocks.base import Block
from dphrl.config.config import Config


def block_in(annotation: Any) -> type[Block] | None:
    """The block in a type, at any depth of mappings and lists; None if there is none."""
    if inner := get_args(annotation):
        return next(filter(None, map(block_in, inner)), None)
    return annotation if isinstance(annotation, type) and issubclass(annotation, Block) else None


def block_at(location: Sequence[str | int]) -> type[Block]:
    """The block at a place of a configuration, such as ("methods", "grpo")."""
    block: type[Block] = Config
    for key in location:
        # A free name and the place in a list are no keys: the block of an entry is that of its list or mapping.
        field = block.model_fields.get(str(key))
        block = (block_in(field.annotation) if field else None) or block
    return block


def known_keys(block: type[Block] = Config, path: str = "") -> Iterator[str]:
    """Every key outside of lists as a dotted path, in which <name> is a free name."""
    for name, field in block.model_fields.items():
        yield f"{path}{name}"
        inner, kind = block_in(field.annotation), get_origin(field.annotation)
        if inner and kind is not tuple:
            yield from known_keys(inner, f"{path}{name}.<name>." if kind is dict else f"{path}{name}.")
