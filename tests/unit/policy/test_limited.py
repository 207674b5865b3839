"""A hostile model folder ends a process with limits, and the error names its file and the next step."""

import json
import os
from pathlib import Path
from shutil import copyfile

import pytest
from safetensors.torch import save_file
from tiny_models import write_tiny_policy

from dphrl.model_config import model_settings
from dphrl.policy import limited
from dphrl.policy.adapter import merge_adapter
from dphrl.policy.check_model import check_base
from dphrl.policy.limited import reading, run_limited
from dphrl.policy.logprobs import load_model


@pytest.fixture
def base(tmp_path: Path) -> Path:
    write_tiny_policy(tmp_path / "base")
    return tmp_path / "base"


def _edit(file: Path, **changes: object) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def _multiply(times: int) -> dict[str, object]:
    """A normalizer that writes each letter "e" twice, so many times."""
    twice = {"type": "Replace", "pattern": {"String": "e"}, "content": "ee"}
    return {"type": "Sequence", "normalizers": [twice] * times}


def test_a_model_that_is_refused_is_named_as_without_limits(base: Path) -> None:
    """Read by a module that imports no library, so that the process starts at once."""
    _edit(base / "config.json", num_attention_heads=0)
    with pytest.raises(ValueError, match=r"config\.json: num_attention_heads is 0, expected 1 to 1000000000: download"):
        run_limited(model_settings, base / "config.json")


def test_a_normalizer_that_fills_the_memory_ends_with_its_folder(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited, "_BYTES", 3 * 2**29)
    _edit(base / "tokenizer.json", normalizer=_multiply(40))
    with pytest.raises(ValueError, match=rf"{base}: no tokenizer that can be used \(.*memory.*\): expected tokenizer"):
        run_limited(check_base, base)


def test_a_normalizer_that_multiplies_a_little_is_named(base: Path) -> None:
    _edit(base / "tokenizer.json", normalizer=_multiply(12))
    with pytest.raises(ValueError, match=r"tokens of \d+ characters: does a normalizer in tokenizer\.json multiply"):
        check_base(base)


def test_what_never_ends_is_ended_after_its_cpu_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited, "_SECONDS", 1)
    with pytest.raises(ValueError, match=r"copyfile /dev/zero /dev/null \(not read after 1 s of CPU time\)"):
        run_limited(copyfile, Path("/dev/zero"), Path("/dev/null"))


@pytest.mark.full
def test_an_expression_in_an_adapter_that_never_ends_is_named(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    settings = {"peft_type": "LORA", "r": 2, "target_modules": r"((\w+\.?)+)+!"}
    (adapter / "adapter_config.json").write_text(json.dumps(settings))
    save_file({"a": load_model(base, "float32").lm_head.weight.detach()}, adapter / "adapter_model.safetensors")
    monkeypatch.setattr(limited, "_SECONDS", 10)
    with pytest.raises(ValueError, match=r"not read after 10 s of CPU time\): see target_modules .*adapter_config"):
        run_limited(merge_adapter, adapter, base, tmp_path / "merged")
    assert not (tmp_path / "merged").exists()


def test_a_panic_is_an_error_that_names_the_file() -> None:
    class PanicException(BaseException):
        """As pyo3 raises for a panic of Rust."""

    with (
        pytest.raises(ValueError, match=r"x: no model \(PanicException: index out of bounds\): use another"),
        reading("x: no model", "use another"),
    ):
        raise PanicException("index out of bounds")


def test_a_process_that_ends_before_it_reads_anything_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"abort \(more than 4 GiB of memory are needed\): see the log"):
        run_limited(os.abort)


@pytest.mark.parametrize("changes", [{"hidden_size": None}, {"num_hidden_layers": 10**6}, {"rope_parameters": []}])
def test_sizes_that_fit_no_model_end_with_the_name_of_config_json(base: Path, changes: dict[str, object]) -> None:
    _edit(base / "config.json", **changes)
    (key,) = changes
    with pytest.raises(ValueError, match=rf"config\.json: .*{key}"):
        check_base(base)


def test_the_attention_that_a_folder_names_is_not_obeyed(base: Path) -> None:
    chosen = load_model(base, "float32").config._attn_implementation
    _edit(base / "config.json", attn_implementation="stranger/kernel", experts_implementation="stranger/kernel")
    check_base(base)
    assert load_model(base, "float32").config._attn_implementation == chosen
