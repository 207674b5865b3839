"""Names of the Hugging Face hub: their syntax, the files that a run takes, and the cache in which these lie.

huggingface_hub fetches files and keeps them in its cache (HF_HOME). A listing, which the rule `fetch` writes, has the
commit of a name and size and sha256 of each file. All other jobs read listing and cache, and need no network.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dphrl.extras import advice
from dphrl.sizes import model_settings

if TYPE_CHECKING:
    from huggingface_hub import RepoFile

PREFIX: Final = "hf://"
GGUF: Final = ".gguf"
ARCHITECTURE: Final = "general.architecture"
# Fields of a GGUF file of the Llama architecture, by their names in config.json.
_OF_GGUF: Final = {
    "num_hidden_layers": "block_count",
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "max_position_embeddings": "context_length",
    "head_dim": "rope.dimension_count",
}
# Of a model: no pickles and no code.
_SMALL_FILES: Final = ("*.json", "*.jinja", "*.model", "*.tiktoken", "*.txt")
OF_MODEL: Final = ("*.safetensors", *_SMALL_FILES)
# On the hub, another form of the weights may lie next to them (`original/`, `consolidated.safetensors`).
_ON_HUB: Final = ("model*.safetensors", "adapter_model.safetensors", *_SMALL_FILES)
_BARE: Final = re.compile(r"(?P<owner>[\w.-]+)/[\w.-]+(@.+)?")
_TRIES: Final = 3
_SECONDS: Final = 5.0


class HubError(ValueError):
    """A name of the hub cannot be read or fetched; the text says what to do."""


@dataclass(frozen=True)
class HubName:
    """A model, or one file of a data set.

    Attributes:
        kind: "model" or "dataset".
        id: "ORG/NAME".
        revision: branch, tag or commit as it was written; None: the default branch.
        file: of a data set, the path of the file; empty for a model.
    """

    kind: str
    id: str
    revision: str | None = None
    file: str = ""

    def __str__(self) -> str:
        revision = f"@{self.revision}" if self.revision else ""
        folder, file = ("datasets/", f"/{self.file}") if self.kind == "dataset" else ("", "")
        return f"{PREFIX}{folder}{self.id}{revision}{file}"

    @property
    def patterns(self) -> dict[str, list[str]]:
        """The files that a run takes, as patterns of huggingface_hub."""
        if self.kind == "dataset":
            return {"allow_patterns": [self.file]}
        return {"allow_patterns": [*_ON_HUB], "ignore_patterns": ["*/*"]}


def model_name(text: str, folder: Path = Path()) -> HubName | None:
    """The model that a text names on the hub: "hf://ORG/NAME[@REVISION]", or without "hf://"; None for a path.

    Args:
        folder: where relative paths start. A text without "hf://" is a path if it exists there, or its first part does.

    Raises:
        HubError: a text with "hf://" that is no model.
    """
    if text.startswith(PREFIX):
        name = _parsed(text)
    else:
        bare = _BARE.fullmatch(text)
        if not bare or (folder / text).exists() or (folder / bare["owner"]).exists():
            return None
        try:
            name = _parsed(f"{PREFIX}{text}")
        except HubError:
            return None  # such as models/NAME: the hub has no owner "models"
    if name.kind != "model" or name.file:
        raise HubError(f"{text}: expected a model of the hub, {PREFIX}ORG/NAME or {PREFIX}ORG/NAME@REVISION")
    return name


def data_name(text: str) -> HubName | None:
    """The file that a text names on the hub: "hf://datasets/ORG/NAME[@REVISION]/FILE"; None for a path.

    Raises:
        HubError: a text with "hf://" that is not one file of a data set.
    """
    if not text.startswith(PREFIX):
        return None
    name = _parsed(text)
    if name.kind != "dataset" or not name.file or re.search(r"[*?\[]", name.file):
        raise HubError(
            f"{text}: expected one file of a data set, {PREFIX}datasets/ORG/NAME/FILE; patterns are not read"
        )
    return name


def _parsed(text: str) -> HubName:
    from huggingface_hub import parse_hf_uri
    from huggingface_hub.errors import HfUriError

    try:
        uri = parse_hf_uri(text)
    except HfUriError as error:
        raise HubError(f"{text}: no name of the hub ({str(error).strip()})") from None
    return HubName(uri.type, uri.id, uri.revision, uri.path_in_repo)


def fetch(name: HubName) -> dict[str, Any]:
    """Bring the files of a name into the cache, check them, and list them: id, kind, revision, commit, files.

    Files that are complete in the cache are not fetched again. A transfer that breaks off goes on where it was; one
    that the end of the process cut starts again.

    Raises:
        HubError: a file cannot be fetched, there is no space, or a file differs from the listing of its commit.
    """
    folder = snapshot(name)
    files = {}
    for entry in _entries(name, folder.name):
        file = folder / entry.path
        sha256 = _checked(name, file, entry)
        files[entry.path] = {"size": entry.size, "sha256": sha256}
    if name.kind == "model" and not any(path.endswith(".safetensors") for path in files):
        raise HubError(f"{name}: it has no model*.safetensors; pickled weights are not loaded: take a converted model")
    if name.kind == "dataset" and not files:
        raise HubError(f"{name}: the data set has no file {name.file}")
    return {"id": name.id, "kind": name.kind, "revision": name.revision, "commit": folder.name, "files": files}


def snapshot(name: HubName) -> Path:
    """The folder of a name in the cache, with its files, which are fetched where they are missing.

    Raises:
        HubError: a file cannot be fetched, or there is no space.
    """
    import httpx2
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import DryRunError

    options: dict[str, Any] = {"repo_type": name.kind, "revision": name.revision, **name.patterns}
    for tried in range(1, _TRIES + 1):
        try:
            try:
                planned = snapshot_download(name.id, dry_run=True, **options)
            except DryRunError:  # The hub cannot be asked; the call below says why, or finds all in the cache.
                planned = []
            _check_space(name, sum(file.file_size for file in planned if file.will_download))
            return Path(snapshot_download(name.id, **options))
        except httpx2.TransportError as error:
            # The library tries again where a server answers with an error, not where a connection breaks off.
            if tried == _TRIES:
                raise HubError(f"{name}: the connection broke off ({error!r}); run snakemake again") from None
        except (OSError, ValueError) as error:
            raise HubError(f"{name}: {_sentence(name, error)}") from None
    raise AssertionError


def _check_space(name: HubName, needed: int) -> None:
    from huggingface_hub.constants import HF_HUB_CACHE

    cache = Path(HF_HUB_CACHE)
    existing = next(folder for folder in (cache, *cache.parents) if folder.exists())
    free = shutil.disk_usage(existing).free
    if needed > free:
        text = f"{needed / 1e9:.1f} GB are needed in {cache}, {free / 1e9:.1f} GB are free: free space, or set HF_HOME"
        raise HubError(text)


def _sentence(name: HubName, error: Exception) -> str:
    """The cause of an error of huggingface_hub and the next step; without its text, which may have addresses."""
    from huggingface_hub import errors

    sentences: dict[type[Exception], str] = {
        HubError: str(error),
        errors.GatedRepoError: f"access is gated: accept its terms on the page of {name.id}, then `hf auth login`",
        errors.RepositoryNotFoundError: "there is none of this name, or it is private: check the name, or `hf auth "
        "login`; for a folder on this machine, its path is missing",
        errors.RevisionNotFoundError: f"there is no revision {name.revision}: take a branch, a tag or a commit",
        errors.RemoteEntryNotFoundError: "it has no such file",
        errors.IncompleteSnapshotError: "the cache (HF_HOME) lacks some of its files, and the hub cannot be reached",
        errors.LocalEntryNotFoundError: "it is not in the cache (HF_HOME), and the hub cannot be reached; for a folder "
        "on this machine, its path is missing",
    }
    sentence = next((text for kind, text in sentences.items() if isinstance(error, kind)), None)
    if sentence is None and isinstance(error, errors.HfHubHTTPError):
        return f"the hub answered with status {error.response.status_code}; try again later"
    return sentence or f"{type(error).__name__}: {error}"


def _entries(name: HubName, commit: str) -> list[RepoFile]:
    """The files that a run takes, by the listing of a commit that huggingface_hub stored."""
    from huggingface_hub import get_cached_repo_tree
    from huggingface_hub.errors import CachedRepoTreeNotFoundError
    from huggingface_hub.utils import filter_repo_objects

    try:
        # Without its listing a cache does not show that files are missing.
        entries = get_cached_repo_tree(name.id, repo_type=name.kind, revision=commit)
    except CachedRepoTreeNotFoundError:
        raise HubError(f"{name}: the cache has no listing of {commit}: fetch it once with a network") from None
    return list(filter_repo_objects(entries, key=lambda entry: entry.path, **name.patterns))


def _checked(name: HubName, file: Path, entry: RepoFile) -> str:
    """The sha256 of a file of the cache, after a comparison with its entry in the listing."""
    again = f"remove it from the cache ({file}) and run snakemake again"
    if not file.is_file() or file.stat().st_size != entry.size:
        raise HubError(f"{name}: {entry.path} is not complete; {again}")
    with file.open("rb") as stream:
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    if entry.lfs is not None:
        same = sha256 == entry.lfs.sha256
    else:
        content = file.read_bytes()
        same = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest() == entry.blob_id
    if not same:
        raise HubError(f"{name}: {entry.path} differs from the listing of its commit; {again}")
    return sha256


def cached_files(listing: Path) -> list[Path]:
    """The files of a listing in the cache, without a network.

    Raises:
        HubError: one is missing or has another size, as after `hf cache prune`.
    """
    from huggingface_hub import try_to_load_from_cache

    listed = json.loads(listing.read_text(encoding="utf-8"))
    files = []
    for name, entry in listed["files"].items():
        file = try_to_load_from_cache(listed["id"], name, revision=listed["commit"], repo_type=listed["kind"])
        if not isinstance(file, str) or not Path(file).is_file() or Path(file).stat().st_size != entry["size"]:
            raise HubError(
                f"{listed['id']}: {name} is no longer in the cache (HF_HOME): delete {listing} and run snakemake again"
            )
        files.append(Path(file))
    return files


def model_config(place: str, folder: Path, *, online: bool = False) -> dict[str, Any] | None:
    """The sizes of a model as config.json names them; None where there is no such file.

    Args:
        place: a name of the hub, a folder, or a GGUF file, whose fields get the names of config.json.
        folder: where relative paths start.
        online: whether the config.json of a name of the hub may be fetched; else it must be in the cache.

    Raises:
        HubError: the hub cannot be asked.
        ValueError: the file is damaged, or the package gguf is not installed.
    """
    if place.endswith(GGUF):
        if not (folder / place).is_file():
            return None
        return _of_gguf(folder / place, (folder / place).stat().st_mtime_ns)
    name = model_name(place, folder)
    file = one_file(name, "config.json", online=online) if name else folder / place / "config.json"
    if file is None or not file.is_file():
        return None
    return model_settings(file)


@cache  # reading a vocabulary of 49,152 takes seconds, and a start asks three times
def _of_gguf(file: Path, modified: int) -> dict[str, Any]:
    content = read_gguf(file, {ARCHITECTURE, *(f"llama.{name}" for name in _OF_GGUF.values())})
    return {
        "model_type": content.values.get(ARCHITECTURE),
        **{ours: content.values.get(f"llama.{theirs}") for ours, theirs in _OF_GGUF.items()},
        "vocab_size": content.rows.get("token_embd.weight"),
        "tie_word_embeddings": "output.weight" not in content.rows,
        # No key of config.json: a GGUF file holds the tokenizer too.
        "chat_template": "tokenizer.chat_template" in content.fields,
    }


class Gguf(NamedTuple):
    """The description of a GGUF file: names of its fields, values of some, and the rows of each tensor by its name."""

    fields: frozenset[str]
    values: dict[str, Any]
    rows: dict[str, int]


def read_gguf(file: Path, wanted: Collection[str]) -> Gguf:
    """The description of a GGUF file with the values of the wanted fields that it has; no weight is read.

    Raises:
        ValueError: the file is damaged, or the package gguf is not installed; the text names the file.
    """
    try:
        from gguf import GGUFReader
    except ModuleNotFoundError as error:
        raise ValueError(f"{file}: {advice(error)}") from error
    try:
        reader = GGUFReader(file)
        values = {name: field.contents() for name, field in reader.fields.items() if name in wanted}
        rows = {tensor.name: int(tensor.shape[-1]) for tensor in reader.tensors}
    except (ValueError, IndexError, KeyError, OverflowError, MemoryError) as error:
        raise ValueError(f"{file}: no complete GGUF file ({error}); get it again") from error
    return Gguf(frozenset(reader.fields), values, rows)


def local_files(paths: Sequence[str]) -> list[Path]:
    """Files as they are, or those that a listing of the rule `fetch` names.

    Listings are `hub/model.*.json`, `hub/data.*.json` and `hub/supervised.json`.
    """
    first = Path(paths[0])
    listing = first.match("results/*/hub/*.json") and first.name.startswith(("model.", "data.", "supervised."))
    return cached_files(first) if listing else [Path(path) for path in paths]


def one_file(name: HubName, file: str, *, online: bool) -> Path | None:
    """One file of a name, by its path there; None where there is none, or offline where the cache lacks it.

    Raises:
        HubError: the hub cannot be asked.
    """
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError

    options: dict[str, Any] = {"repo_type": name.kind, "revision": name.revision, "local_files_only": not online}
    try:
        return Path(hf_hub_download(name.id, file, **options))
    except EntryNotFoundError as error:
        if online and isinstance(error, FileNotFoundError):
            raise HubError(f"{name}: {_sentence(name, error)}") from None
        return None
    except OSError as error:
        raise HubError(f"{name}: {_sentence(name, error)}") from None


def moved(listings: Mapping[str, str]) -> Iterator[str]:
    """A line for each name whose branch or tag has another commit now than its listing; nothing without a network.

    Args:
        listings: the name of each, by the path; a listing that is not there yet is left out.
    """
    for path, name in listings.items():
        if not Path(path).is_file():
            continue
        from huggingface_hub import HfApi  # half a second, at the start of every run

        listed = json.loads(Path(path).read_text(encoding="utf-8"))
        try:
            now = HfApi().repo_info(
                listed["id"], repo_type=listed["kind"], revision=listed["revision"], timeout=_SECONDS
            )
        except Exception:  # Any failure: a run that has its files does not depend on the hub.
            return
        if now.sha != listed["commit"]:
            yield (
                f"{name} has moved: the run keeps commit {listed['commit'][:12]}, now it is {str(now.sha)[:12]}; to "
                f"take it, delete {path} and name it once as the target; all later jobs run again"
            )
