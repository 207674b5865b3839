"""The config.json of a model, whose sizes plans and checks compute with."""

from pathlib import Path
from typing import Any, Final

from pydantic_core import from_json

_SIZES: Final = (
    *("num_hidden_layers", "hidden_size", "vocab_size", "intermediate_size"),
    *("num_attention_heads", "num_key_value_heads", "head_dim"),
)
_LARGEST: Final = 10**9


def model_settings(file: Path) -> dict[str, Any]:
    """The content of a config.json.

    Raises:
        ValueError: it is no object, or a size in it is no number from 1 to 10^9.
    """
    try:
        # This parser limits the depth of nesting.
        settings = from_json(file.read_bytes())
    except ValueError as error:
        raise ValueError(f"{file}: {error}: download the model again") from None
    if not isinstance(settings, dict):
        raise ValueError(f"{file}: expected an object, found {type(settings).__name__}: download the model again")
    for key in _SIZES:
        size = settings.get(key)
        # Some models have a list: a size for each layer.
        if size is not None and not isinstance(size, list) and not (isinstance(size, int) and 0 < size <= _LARGEST):
            raise ValueError(f"{file}: {key} is {size!r:.40}, expected 1 to {_LARGEST}: download the model again")
    return settings
