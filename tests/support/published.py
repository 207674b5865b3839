"""Published things that tests read or copy: public data sets, and the sizes of a model."""

import os
from pathlib import Path
from typing import Any

import pytest

DATA = Path(os.environ.get("DPHRL_TEST_DATA", Path(__file__).parents[3] / "shared" / "data"))
SPIDER = DATA / "text2sql" / "spider"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"no shared data at {DATA}: set DPHRL_TEST_DATA")
# Llama 3.1 8B.
LLAMA_8B: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "vocab_size": 128256,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
}
