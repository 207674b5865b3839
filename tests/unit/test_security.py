"""What data, models and their outputs cannot do: run code, leave their folder, see the environment (SECURITY.md)."""

import ast
import json
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import polars as pl
import pytest
import torch
from tiny_models import write_tiny_policy

from dphrl.config.blocks.sampling import EngineConfig, HardwareConfig
from dphrl.config.errors import ConfigError
from dphrl.config.load import load_config
from dphrl.data.records import read_source
from dphrl.data.tokens import encoder, response_encoder
from dphrl.policy.batch import Row
from dphrl.policy.check_model import check_base
from dphrl.policy.engines import make_engine
from dphrl.policy.logprobs import LogProbs, load_model, response_logprobs
from dphrl.policy.requests import Request
from dphrl.store.manifest import verified_manifest, write_manifest
from dphrl.store.parquet import read_table, write_table
from dphrl.training.reference import save_tensors, tensorise
from dphrl.training.stored_responses import load as load_reference

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "workflow_scripts"
# What runs what it reads, by the call that does.
RUNS_WHAT_IT_READS = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
LOADS = {"torch.load", "numpy.load", "np.load", "yaml.load", "yaml.unsafe_load", "eval", "exec"}
# A custom scorer is code by intent, and named in the config.
NAMED_CODE = {"scoring/factory.py"}
EVIL = "from pathlib import Path\nPath({mark!r}).write_text('ran')\n"

_unpickled: list[str] = []


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "pickle.find_class":
        _unpickled.append(".".join(map(str, arguments)))


# An audit hook cannot be removed; this one only records.
sys.addaudithook(_note)


@pytest.fixture
def unpickled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names that were looked up by an unpickler since the test began."""

    def refuse(*arguments: Any, **settings: Any) -> NoReturn:
        raise AssertionError("torch.load was called")

    monkeypatch.setattr(torch, "load", refuse)
    _unpickled.clear()
    return _unpickled


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("security") / "policy"
    write_tiny_policy(folder)
    return folder


def test_the_hook_sees_a_pickle_that_is_loaded(unpickled: list[str]) -> None:
    pickle.loads(pickle.dumps(Path("here")))
    assert any("pathlib" in name for name in unpickled)


def test_no_pickle_is_loaded_with_a_model_a_tokenizer_or_an_artifact(
    policy: Path, tmp_path: Path, unpickled: list[str]
) -> None:
    module = LogProbs(load_model(policy, "float32"))
    response_logprobs(module, [Row([1], [2])], 64)
    check_base(policy)
    engine = make_engine(
        policy, EngineConfig(name="transformers", dtype="float32", max_model_len=64), HardwareConfig(kv_cache_gib=0.1)
    )
    engine.generate([Request("p", 0, [3, 4], 1, 1.0, 1.0, max_tokens=3)])
    encoder(policy, "plain")([{"role": "user", "content": "a"}])
    response_encoder(policy, "plain")("b", True)
    row = {"prompt_id": "p", "sample_index": 0, "prompt_token_ids": [1], "token_ids": [2], "sampler_logprobs": [-1.0]}
    (index,) = save_tensors(tensorise([pl.DataFrame([row])], module, 64), tmp_path / "responses.safetensors")
    write_table(index, "reference_index", tmp_path / "index.parquet", {})
    load_reference(tmp_path / "responses.safetensors").rows([0])
    read_table(tmp_path / "index.parquet", "reference_index")
    write_manifest(policy.with_suffix(".json"), {})
    verified_manifest(policy.with_suffix(".json"))
    (tmp_path / "rows.jsonl").write_text('{"question": "q"}\n')
    read_source(tmp_path / "rows.jsonl")
    assert unpickled == []


def test_pickled_weights_are_refused(policy: Path, tmp_path: Path, unpickled: list[str]) -> None:
    folder = tmp_path / "pickled"
    folder.mkdir()
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((policy / name).read_bytes())
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"weights": Path("evil")}))
    with pytest.raises(ValueError, match="pickled weights are not loaded"):
        check_base(folder)
    with pytest.raises(OSError, match="safetensors"):
        load_model(folder, "float32")
    assert unpickled == []


@pytest.mark.parametrize("what", ["model", "tokenizer"])
def test_the_code_of_a_model_folder_is_never_run(policy: Path, tmp_path: Path, what: str) -> None:
    folder, mark = tmp_path / "hostile", tmp_path / "ran"
    folder.mkdir()
    for file in policy.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    (folder / "evil.py").write_text(EVIL.format(mark=str(mark)))
    name, classes = {
        "model": ("config.json", {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"}),
        "tokenizer": ("tokenizer_config.json", {"AutoTokenizer": ["evil.Tokenizer", "evil.Tokenizer"]}),
    }[what]
    settings = json.loads((folder / name).read_text()) | {"auto_map": classes}
    settings |= {"model_type": "evil"} if what == "model" else {"tokenizer_class": "EvilTokenizer"}
    (folder / name).write_text(json.dumps(settings))
    loaders: dict[str, Callable[[], object]] = {
        "model": lambda: load_model(folder, "float32"),
        "tokenizer": lambda: encoder(folder, "plain"),
    }
    with pytest.raises(ValueError, match=r"trust_remote_code|custom code"):
        loaders[what]()
    with pytest.raises(ValueError, match="it needs code that comes with it"):
        check_base(folder)
    assert not mark.exists()


def test_no_module_loads_what_can_run_code_or_trusts_a_model() -> None:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix().removeprefix("dphrl/")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {alias.name for alias in node.names} | {getattr(node, "module", None)}
                found += [f"{name}: {bad}" for bad in names & RUNS_WHAT_IT_READS]
            elif isinstance(node, ast.Call) and name not in NAMED_CODE:
                call = ast.unparse(node.func)
                trusting = [word for word in node.keywords if word.arg == "trust_remote_code"]
                found += [f"{name}: {call}"] if call in LOADS else []
                found += [f"{name}: trust_remote_code" for word in trusting if ast.unparse(word.value) != "False"]
    assert found == []


@pytest.mark.parametrize(
    ("place", "name"),
    [
        *(("run", name) for name in ("../outside", "/etc", "a/b", "..", "", "a\0", "a\n")),
        *((place, "../outside") for place in ("dataset", "method", "replay")),
    ],
)
def test_names_of_the_config_cannot_leave_the_results(name: str, place: str) -> None:
    toy = {"task": "math", "source": "toy"}
    data: dict[str, Any] = {"run": "run", "toy": {}, "datasets": {"train": toy, "maths": toy}, "train_dataset": "train"}
    data |= {"run": name} if place == "run" else {}
    data |= {"datasets": {**data["datasets"], name: toy}} if place == "dataset" else {}
    data |= {"methods": {name: {}}} if place == "method" else {}
    data |= {"replay": {name: {"maths": "answers.jsonl"}}} if place == "replay" else {}
    with pytest.raises(ConfigError, match="allowed: match pattern"):
        load_config(data)
