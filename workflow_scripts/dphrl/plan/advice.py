"""Which keys to change so that a training fits on its GPUs."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from dphrl.plan.memory import Setting, phases
from dphrl.plan.shape import ModelShape

# What costs least time comes first. Names of settings with the values to try, in this order.
_CHANGES: Final = (
    ("zero_stage", (3,)),
    ("checkpointing", (True,)),
    ("ranks", (2, 4, 8)),
    ("kv_cache_gib", (12, 6)),
    ("offload", (True,)),
    ("tensor_parallel", (2, 4, 8)),
    ("ranks", (16, 32, 64)),
)


def peak(shape: ModelShape, setting: Setting) -> float:
    """Bytes on a GPU in the phase that needs most."""
    return max(phase.total for phase in phases(shape, setting))


def changes_that_fit(shape: ModelShape, setting: Setting, limit: float) -> dict[str, Any] | None:
    """The fields of a setting to change, and their values, so that every phase stays below `limit` bytes.

    Each change is needed: without it the others would not do. None where no combination of these is enough.
    """
    chosen: dict[str, Any] = {}
    for name, values in _CHANGES:
        for value in values:
            if peak(shape, replace(setting, **chosen)) < limit:
                return _needed(shape, setting, chosen, limit)
            if _is_more(name, value, {**vars(setting), **chosen}):
                chosen[name] = value
    return _needed(shape, setting, chosen, limit) if peak(shape, replace(setting, **chosen)) < limit else None


def _is_more(name: str, value: Any, setting: Mapping[str, Any]) -> bool:
    if name == "tensor_parallel" and setting["ranks"] % value:
        return False
    return value < setting[name] if name == "kv_cache_gib" else value > setting[name]


def _needed(shape: ModelShape, setting: Setting, chosen: dict[str, Any], limit: float) -> dict[str, Any]:
    for name in reversed([*chosen]):
        others = {other: value for other, value in chosen.items() if other != name}
        if peak(shape, replace(setting, **others)) < limit:
            chosen = others
    return chosen
