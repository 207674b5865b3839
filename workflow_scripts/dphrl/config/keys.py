"""The known keys: a walk over the blocks, for error messages and for the documented defaults."""

from collections.abc import Iterator, Sequence
from types import NoneType, UnionType
from typing import Annotated, Union, get_args, get_origin

from pydantic import BaseModel


def plain(annotation: object) -> object:
    """The annotation without `Annotated[...]` and without `| None`."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return plain(get_args(annotation)[0])
    if origin in (Union, UnionType):
        parts = [part for part in get_args(annotation) if part is not NoneType]
        return plain(parts[0]) if len(parts) == 1 else annotation
    return annotation


def is_block(annotation: object) -> bool:
    """Whether the annotation is a block of keys."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def inside(annotation: object) -> object:
    """What a mapping or a list holds; null for anything else."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is dict:
        return plain(arguments[1])
    return plain(arguments[0]) if origin in (list, tuple) else None


def block_in(annotation: object) -> type[BaseModel] | None:
    """The block in an annotation, however deep in mappings and lists; null if there is none."""
    current = plain(annotation)
    while current is not None and not is_block(current):
        current = inside(current)
    return current  # type: ignore[return-value]


def block_at(root: type[BaseModel], location: Sequence[str | int]) -> type[BaseModel] | None:
    """The block that holds the key at `location`; null where the last part is no key of a block."""
    current: object = root
    for part in location[:-1]:
        if isinstance(current, type) and issubclass(current, BaseModel):
            field = current.model_fields.get(str(part))
            current = plain(field.annotation) if field is not None else None
        else:
            current = inside(current)
    return current if isinstance(current, type) and issubclass(current, BaseModel) else None


def known_paths(block: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Every known key as a dotted path; a free name is written as <name>."""
    for name, field in block.model_fields.items():
        path = prefix + name
        yield path
        current = plain(field.annotation)
        while current is not None and not is_block(current):
            path += ".<name>" if get_origin(current) is dict else "[]"
            current = inside(current)
        if isinstance(current, type) and issubclass(current, BaseModel):
            yield from known_paths(current, f"{path}.")
