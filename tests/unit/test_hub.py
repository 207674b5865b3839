"""Names of the hub: their syntax, and their files from a server on this machine and from a cache without a network."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hub_server import Hub, serve
from huggingface_hub import _tree_cache, constants
from tiny_models import write_tokenizer

from dphrl.cli import main
from dphrl.hub import (
    HubError,
    HubName,
    _checked_answers,
    data_file,
    data_name,
    fetch,
    local_files,
    model_name,
    one_file,
)

MODEL, DATA = HubName("model", "org/model"), HubName("dataset", "org/data", None, "main/train.jsonl")
TOKEN = "hf_secret"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A model with files that a run takes and others, and a data set; the cache is empty."""
    files = {
        "model/config.json": b'{"max_position_embeddings": 64}',
        "model/tokenizer.json": b"{}",
        "model/chat_template.jinja": b"{{ messages }}",
        "model/model.safetensors": bytes(range(256)) * 64,
        "model/consolidated.safetensors": b"other names",
        "model/original/params.json": b"{}",
        "model/pytorch_model.bin": b"pickle",
        "model/modeling.py": b"code",
        "data/main/train.jsonl": b'{"question": "q", "answer": "1"}\n',
        "data/main/test.jsonl": b"{}\n",
    }
    for name, content in files.items():
        (tmp_path / "hub" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "hub" / name).write_bytes(content)
    folders = {"org/model": tmp_path / "hub/model", "datasets/org/data": tmp_path / "hub/data"}
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    with serve(Hub(folders)) as served:
        monkeypatch.setattr(constants, "ENDPOINT", served.url)
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.partition("/{repo_id}")
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", f"{served.url}{template[1]}{template[2]}")
        yield served


def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    _tree_cache._IN_MEMORY_TREE_CACHE.clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


def _listing(folder: Path, name: HubName, file: str) -> Path:
    path = folder / "results/run/hub" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(fetch(name)))
    return path


def test_the_syntax_of_a_model(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    assert model_name("org/model", tmp_path) == model_name("hf://org/model", tmp_path) == MODEL
    assert model_name("org/model@v1.0", tmp_path) == HubName("model", "org/model", "v1.0")
    assert str(model_name("hf://org/model@refs/pr/1")) == "hf://org/model@refs/pr/1"
    # A path, as its first folder is there; and forms that no name of the hub has.
    for path in ("mine/Llama", "model", "a/b/c", "/a/b", "./a"):
        assert model_name(path, tmp_path) is None
    assert model_name("hf://mine/Llama", tmp_path) == HubName("model", "mine/Llama")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("hf://gpt2", "no name of the hub"),
        ("hf://spaces/org/space", "expected a model"),
        ("hf://datasets/org/data/train.jsonl", "expected a model"),
        ("hf://org/model/model.safetensors", "expected a model"),
    ],
)
def test_other_names_are_no_model(text: str, part: str) -> None:
    with pytest.raises(HubError, match=part):
        model_name(text)


def test_the_syntax_of_data() -> None:
    assert data_name("data/train.jsonl") is None
    assert data_name("hf://datasets/org/data/main/train.jsonl") == DATA
    assert data_name("hf://datasets/org/data@v1/train.jsonl") == HubName("dataset", "org/data", "v1", "train.jsonl")
    for text in ("hf://datasets/org/data", "hf://datasets/org/data/*.jsonl", "hf://org/model", "hf://datasets/squad"):
        with pytest.raises(HubError, match=r"one file of a data set|no name of the hub"):
            data_name(text)


def test_a_model_brings_its_files_and_no_pickles_code_or_other_weights(hub: Hub, tmp_path: Path) -> None:
    listing = _listing(tmp_path, MODEL, "model.base.json")
    names = ["chat_template.jinja", "config.json", "model.safetensors", "tokenizer.json"]
    content = json.loads(listing.read_text())
    assert sorted(content["files"]) == names
    assert (content["commit"], content["revision"]) == ("1" * 40, None)
    files = local_files([str(listing)])
    assert sorted(file.name for file in files) == names
    for file in files:
        assert file.read_bytes() == (hub.folders["org/model"] / file.name).read_bytes()
    assert TOKEN not in listing.read_text()
    # A second call fetches nothing.
    count = len(hub.ranges)
    assert fetch(MODEL) == content
    assert len(hub.ranges) == count


def test_data_brings_one_file(hub: Hub, tmp_path: Path) -> None:
    listing = _listing(tmp_path, DATA, "data.train.json")
    (file,) = local_files([str(listing)])
    assert file.name == "train.jsonl"
    assert file.read_bytes() == (hub.folders["datasets/org/data"] / "main/train.jsonl").read_bytes()
    assert local_files(["data/train.jsonl"]) == [Path("data/train.jsonl")]
    assert local_files(["hub/data.train.json"]) == [Path("hub/data.train.json")]


def test_a_transfer_that_breaks_off_goes_on_where_it_was(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1024)
    hub.cuts = 1
    assert fetch(MODEL)["files"]["model.safetensors"]["size"] == 256 * 64
    assert ("model.safetensors", 256 * 32) in hub.ranges


def test_without_a_network_the_cache_is_enough(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fetch(MODEL)
    count = len(hub.ranges)
    _offline(monkeypatch)
    assert fetch(MODEL) == before
    assert len(hub.ranges) == count
    file = one_file(MODEL, "config.json", online=False)
    assert file is not None
    assert file.read_bytes() == (hub.folders["org/model"] / "config.json").read_bytes()
    assert one_file(MODEL, "no.json", online=False) is None
    # Without the listing of the commit, files may be missing.
    shutil.rmtree(tmp_path / "cache/models--org--model/trees")
    _offline(monkeypatch)
    with pytest.raises(HubError, match="OfflineModeIsEnabled"):
        fetch(MODEL)


def test_an_empty_cache_without_a_network(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    _offline(monkeypatch)
    with pytest.raises(HubError, match=r"hf://org/model: it is no folder on this machine, .*cache \(HF_HOME\)"):
        fetch(MODEL)
    assert hub.ranges == []


@pytest.mark.parametrize(
    ("answer", "part"),
    [
        ((403, "GatedRepo"), "accept its terms on its page, then `hf auth login`"),
        ((401, "RepoNotFound"), "RepositoryNotFoundError: .* authenticated"),
    ],
)
def test_a_refusal_names_the_model_and_says_what_to_do(hub: Hub, answer: tuple[int, str], part: str) -> None:
    hub.errors["org/model"] = answer
    with pytest.raises(HubError, match=f"hf://org/model: .*{part}") as caught:
        fetch(MODEL)
    assert TOKEN not in str(caught.value)


def test_an_error_has_no_signed_address() -> None:
    with pytest.raises(HubError, match="for url: https://cdn/file expired") as caught, _checked_answers(MODEL):
        raise OSError("403 Forbidden for url: https://cdn/file?X-Amz-Signature=secret\nexpired")
    assert "secret" not in str(caught.value)


def test_an_unknown_revision_and_an_unknown_file(hub: Hub) -> None:
    with pytest.raises(HubError, match="RevisionNotFoundError"):
        fetch(HubName("model", "org/model", "v9"))
    for bring in (fetch, lambda name: data_file(str(name), Path())):
        with pytest.raises(HubError, match=r"has no file no\.jsonl"):
            bring(HubName("dataset", "org/data", None, "no.jsonl"))


def test_a_model_of_pickles_is_refused(hub: Hub) -> None:
    (hub.folders["org/model"] / "model.safetensors").unlink()
    with pytest.raises(HubError, match="pickled weights are not loaded"):
        fetch(MODEL)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_file_that_is_not_of_its_commit_is_named(hub: Hub, name: str) -> None:
    files = fetch(MODEL)["files"]
    blob = Path(constants.HF_HUB_CACHE, "models--org--model/snapshots", "1" * 40, name).resolve()
    blob.chmod(0o644)
    for content in (b"x" * files[name]["size"], b"x"):
        blob.write_bytes(content)
        with pytest.raises(HubError, match=f"{name} differs from the listing"):
            fetch(MODEL)


LIES: dict[str, tuple[dict[str, Any], str]] = {
    "a commit above": ({"commit": "../../../../escaped"}, "says that its commit is '../../../../escaped'"),
    "an absolute commit": ({"commit": "/tmp/escaped"}, "says that its commit is '/tmp/escaped'"),
    "a digest above": ({"entries": {"oid": "../../../escaped"}}, r"lists .* with the digest '../../../escaped'"),
    "a large file's digest": (
        {"entries": {"lfs": {"oid": "../../escaped", "size": 1, "pointerSize": 1}}},
        "with the digest '../../escaped'",
    ),
    "no text as digest": ({"entries": {"oid": None}}, "with the digest 'None'"),
    "an entry without size": ({"entries": {"size": None}}, "TypeError"),
    "an etag above": ({"headers": {"ETag": '"../../../escaped"'}}, "not in its listing .*digest '../../../escaped'"),
    "a weak etag above": ({"headers": {"ETag": 'W/"../../../escaped"'}}, "not in its listing"),
    "a linked etag": ({"headers": {"X-Linked-ETag": '"../../../escaped"'}}, "not in its listing"),
    "another file's etag": ({"headers": {"ETag": f'"{"a" * 40}"'}}, "not in its listing"),
    "another commit of a file": ({"headers": {"X-Repo-Commit": "../../../escaped"}}, "not in its listing"),
    "pages without an end": ({"endless": "pages"}, "answers without an end"),
    "redirects without an end": ({"endless": "redirects"}, "TooManyRedirects"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_hub_that_lies_is_refused_before_a_file_is_fetched(lie: str, hub: Hub, tmp_path: Path) -> None:
    before = {path for path in tmp_path.rglob("*") if not path.is_relative_to(tmp_path / "cache")}
    changes, message = LIES[lie]
    for name, value in changes.items():
        setattr(hub, name, value)
    for bring in (lambda: fetch(MODEL), lambda: one_file(MODEL, "config.json", online=True)):
        with pytest.raises(HubError, match=f"hf://org/model: .*{message}"):
            bring()
    assert hub.ranges == []
    assert {path for path in tmp_path.rglob("*") if not path.is_relative_to(tmp_path / "cache")} == before
    assert not any(path.is_file() for path in (tmp_path / "cache").rglob("snapshots/*"))
    assert not any((tmp_path / "cache").rglob("*escaped*"))
    assert not Path("/tmp/escaped").exists()


def test_a_body_that_is_longer_than_its_listing_ends_the_transfer(hub: Hub, tmp_path: Path) -> None:
    """It is gzip, so few bytes are sent; 10 MiB come at a time."""
    hub.endless = "bodies"
    with pytest.raises(HubError, match="the hub sends more than 16,777,216 bytes"):
        fetch(DATA)
    assert hub.sent < 10 * 2**10
    assert not [path for path in (tmp_path / "cache").rglob("*.incomplete")]


def test_a_pruned_cache_is_named_with_the_next_step(hub: Hub, tmp_path: Path) -> None:
    listing = _listing(tmp_path, MODEL, "model.base.json")
    shutil.rmtree(constants.HF_HUB_CACHE)
    with pytest.raises(HubError, match=f"no longer in the cache .* delete {listing}"):
        local_files([str(listing)])


def test_a_plan_names_a_model_without_a_config(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (hub.folders["org/model"] / "config.json").unlink()
    datasets = "datasets: {d: {task: math, source: d.jsonl}}, train_dataset: d, evaluate: {datasets: [d]}"
    Path("my.yaml").write_text(f"{{run: my, policy: {{base: org/model}}, {datasets}}}")
    assert main(["plan", "my.yaml"]) == 2
    assert "org/model, in which there is no config.json" in capsys.readouterr().err


def test_a_first_configuration_by_names_alone(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tokenizer(hub.folders["org/model"])
    monkeypatch.chdir(tmp_path)
    data = str(DATA)
    assert main(["init", "--no-draw", "--data", data, "--model", "org/model"]) == 0
    config = yaml.safe_load(Path("train.yaml").read_text())
    assert config["policy"]["base"] == "org/model"
    assert config["datasets"]["train"] == {"task": "math", "source": data}
    # No request is made for weights, and the template of the chat is seen.
    assert not any(file == "model.safetensors" for file, _ in hub.ranges)
    assert config["prompts"]["template"] == "chat"
    assert capsys.readouterr().out.startswith(f"{data}: 1 rows, task math")
    assert main(["init", "--out", "other.yaml", "--data", data, "--model", "no/folder/here"]) == 2
    assert "a model of the hub" in capsys.readouterr().err
