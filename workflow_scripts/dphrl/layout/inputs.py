"""The inputs of an artifact: the names in its footer, and where they are in the run folder."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from dphrl.layout.kinds import OUTSIDE, Kind, fill, kind_of, match
from dphrl.layout.names import BASE, PolicyName


def input_names(path: str, names: Collection[str]) -> tuple[list[str], list[str]]:
    """Of the names of an artifact's inputs: those that its kind does not have, and those that its kind needs."""
    found = kind_of(path)
    if found is None:
        return [], []
    kind, fields = found
    patterns = {name: _pattern(kind, name) for name in names}
    optional = kind.optional - ({"partition"} if fields.get("plan") == "refine" else set())
    needed = [pattern for pattern in kind.inputs if pattern not in {*optional, *patterns.values()}]
    return [name for name, pattern in patterns.items() if pattern is None], needed


def _pattern(kind: Kind, name: str) -> str | None:
    """The first pattern of the kind's inputs that a name fits."""
    return next((pattern for pattern in kind.inputs if match(pattern, name) is not None), None)


def inputs_of(
    path: str, names: Iterable[str], files: Collection[str], train: str | None, start: str | None
) -> dict[str, list[tuple[str, ...]]]:
    """The paths of an artifact's inputs, by their names in its footer; inputs from outside of the run are left out.

    Args:
        path: the path of the artifact in the run folder.
        names: the names of the inputs.
        files: the artifacts of the run.
        train: the training set, if it is known.
        start: the policy that a segment of a training starts from, if it is known.

    Returns:
        For each input its alternatives; an alternative of several paths is a table in shards.
    """
    found = kind_of(path)
    if found is None:
        return {}
    kind, own = found
    known = {name: value for name, value in (("train", train), ("start", start)) if value is not None}
    places = {}
    for name in names:
        pattern = _pattern(kind, name)
        if pattern is not None and kind.inputs[pattern] != OUTSIDE:
            fields = {**known, **own, **(match(pattern, name) or {})}
            places[name] = _alternatives(kind.inputs[pattern], fields, files)
    return places


def _alternatives(source: str, fields: dict[str, str], files: Collection[str]) -> list[tuple[str, ...]]:
    """The paths that match `source` after the known fields are filled in."""
    if "step" in fields:
        fields["policy"] = str(PolicyName(fields["method"], int(fields["seed"]), int(fields["step"])))
    # Recorded answers have no model: they are tokenised with the tokenizer of the base policy.
    fields["model"] = fields["policy"] if "/" in fields.get("policy", "") else BASE.method
    source = fill(source, fields)
    if "{" not in source:
        return [(source,)]
    fitting = {path: found for path in files if (found := match(source, path)) is not None}
    if "{train}" in source:
        return []
    if "{shard}" in source:
        tables: dict[tuple[str, ...], list[str]] = {}
        for path, found in fitting.items():
            tables.setdefault(tuple(value for name, value in found.items() if name != "shard"), []).append(path)
        return [*map(tuple, tables.values())]
    if "{start}" in source:
        end = PolicyName.parse(fields["policy"])
        fitting = {path: found for path, found in fitting.items() if _precedes(PolicyName.parse(found["start"]), end)}
    return [(path,) for path in fitting]


def _precedes(start: PolicyName, end: PolicyName) -> bool:
    """Whether a segment that ends with `end` can start from `start`."""
    return start == BASE or (start.training == end.training and start.step < end.step)
