"""Names of the Hugging Face hub: their syntax, the files that a run takes, and the cache in which these lie.

huggingface_hub fetches files and keeps them in its cache (HF_HOME). A listing, which the rule `fetch` writes, has the
commit of a name and size and sha256 of each file. All other jobs read listing and cache, and need no network.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dphrl.model_config import model_settings

if TYPE_CHECKING:
    from httpx2 import Response
    from huggingface_hub._tree_cache import TreeCacheEntry

PREFIX: Final = "hf://"
# Of a model: no pickles and no code.
SMALL_FILES: Final = ("*.json", "*.jinja", "*.model", "*.tiktoken", "*.txt")
OF_MODEL: Final = ("*.safetensors", *SMALL_FILES)
# On the hub, another form of the weights may lie next to them (`original/`, `consolidated.safetensors`).
_ON_HUB: Final = ("model*.safetensors", "adapter_model.safetensors", *SMALL_FILES)
_BARE: Final = re.compile(r"(?P<owner>[\w.-]+)/[\w.-]+(@.+)?")
_COMMIT: Final = re.compile("[0-9a-f]{40}")
_DIGEST: Final = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
# Most answers to a listing, whose pages have 1,000 files, and to each file, with redirects and new tries.
_ANSWERS: Final = 100
# Most bytes of an answer to a listing.
_LONGEST: Final = 2**24
_OTHER_HUB: Final = "take another hub (HF_ENDPOINT)"
# Transfers by hf_xet pass no check of this module; 0 turns them on.
os.environ.setdefault("HF_HUB_DISABLE_XET", "1")


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
    def patterns(self) -> dict[str, Any]:
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

    Files that are complete in the cache are not fetched again.

    Raises:
        HubError: as `snapshot`, or a file differs from the listing of its commit.
    """
    from huggingface_hub.utils.sha import git_hash

    folder, entries = snapshot(name, name.patterns)
    files = {}
    for path, entry in entries.items():
        file = folder / path
        with file.open("rb") as stream:
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
        if _digest(entry) != (sha256 if entry.lfs_sha256 else git_hash(file.read_bytes())):
            raise HubError(
                f"{name}: {file.name} differs from the listing of its commit; remove it from the cache ({file}) and run"
                " snakemake again"
            )
        files[path] = {"size": entry.size, "sha256": sha256}
    if name.kind == "model" and not any(path.endswith(".safetensors") for path in files):
        raise HubError(f"{name}: it has no model*.safetensors; pickled weights are not loaded: take a converted model")
    if name.kind == "dataset" and not files:
        raise HubError(f"{name}: the data set has no file {name.file}")
    return {"id": name.id, "kind": name.kind, "revision": name.revision, "commit": folder.name, "files": files}


def snapshot(name: HubName, patterns: dict[str, Any]) -> tuple[Path, dict[str, TreeCacheEntry]]:
    """The folder of a name in the cache, and its files that fit the patterns, by path; what is missing is fetched.

    Args:
        patterns: `allow_patterns` and `ignore_patterns` of huggingface_hub.

    Raises:
        HubError: a file cannot be fetched, or the hub answers with what it cannot have.
    """
    from huggingface_hub import HfApi, constants, snapshot_download
    from huggingface_hub.file_download import repo_folder_name
    from huggingface_hub.utils import filter_repo_objects

    place: dict[str, Any] = {"repo_id": name.id, "repo_type": name.kind}
    storage = Path(constants.HF_HUB_CACHE).expanduser().resolve() / repo_folder_name(**place)
    with _checked_answers(name) as answers:
        revision = HfApi().resolve_revision(revision=name.revision, **place)
        if not _COMMIT.fullmatch(revision.resolved):
            (storage / "refs" / revision).unlink(missing_ok=True)  # the library keeps what it is told
            raise HubError(f"{name}: the hub says that its commit is {revision.resolved!r}; {_OTHER_HUB}")
        listed = _listing(name, storage, revision.resolved)
        entries = {path: listed[path] for path in filter_repo_objects(listed, **patterns)}
        answers.expect(revision.resolved, entries)
        return Path(snapshot_download(revision=revision, **patterns, **place)), entries


@dataclass
class _Answers:
    """Checks of the answers of a hub, which may be anybody's server (HF_ENDPOINT).

    huggingface_hub makes paths of the headers X-Repo-Commit and ETag, and reads pages and bodies to their end.

    Attributes:
        left: answers that may still come.
        longest: most bytes of an answer.
        commit, digests: of the listing; before it no file is accepted.
    """

    name: HubName
    left: int = _ANSWERS
    longest: int = _LONGEST
    commit: str = ""
    digests: Collection[str] = ()

    def expect(self, commit: str, entries: Mapping[str, TreeCacheEntry]) -> None:
        """Accept the files of this listing from now on, and nothing else."""
        self.commit, self.digests = commit, {_digest(entry) for entry in entries.values()}
        self.left = _ANSWERS * len(entries)
        self.longest = max([_LONGEST, *(entry.size for entry in entries.values())])

    def check(self, response: Response) -> None:
        """Refuse an answer by its number and headers, and end its body where it is too long."""
        self.left -= 1
        if self.left < 0:
            raise HubError(f"{self.name}: the hub answers without an end; {_OTHER_HUB}")
        if response.request.method == "HEAD":
            commit = response.headers.get("X-Repo-Commit", self.commit)
            etag = response.headers.get("X-Linked-ETag") or response.headers.get("ETag") or ""
            digest = etag.removeprefix("W/").strip('"')
            if commit != self.commit or not (response.is_error or digest in {"", *self.digests}):
                not_listed = f"commit {commit!r}, digest {digest!r}"
                raise HubError(
                    f"{self.name}: the hub has a file that is not in its listing ({not_listed}); {_OTHER_HUB}"
                )
        response.iter_bytes = partial(self._limited, response.iter_bytes)  # type: ignore[method-assign]

    def _limited(self, read: Callable[[int | None], Iterator[bytes]], chunk_size: int | None = None) -> Iterator[bytes]:
        """The bytes of a body after decompression."""
        length = 0
        for chunk in read(chunk_size):
            length += len(chunk)
            if length > self.longest:
                raise HubError(f"{self.name}: the hub sends more than {self.longest:,} bytes; {_OTHER_HUB}")
            yield chunk


@contextmanager
def _checked_answers(name: HubName) -> Iterator[_Answers]:
    """Check each answer that huggingface_hub gets meanwhile. Errors get the name, and lose signatures of addresses."""
    from huggingface_hub import close_session, get_session
    from huggingface_hub.errors import GatedRepoError

    answers = _Answers(name)
    get_session().event_hooks["response"].append(answers.check)
    try:
        yield answers
    except HubError:
        raise
    except Exception as error:  # of any type: the library trusts the form of an answer
        cause = re.sub(r"\?\S+", "", " ".join(f"{type(error).__name__}: {error}".split()))
        path = "it is no folder on this machine, and " if name.kind == "model" else ""
        terms = "; accept its terms on its page, then `hf auth login`" if isinstance(error, GatedRepoError) else ""
        raise HubError(f"{name}: {path}the hub and its cache (HF_HOME) do not give it: {cause}{terms}") from None
    finally:
        close_session()  # with the check


def _digest(entry: TreeCacheEntry) -> str:
    """The digest by which a file of a listing is stored: sha256 of a large file, else git's sha1."""
    return str(entry.lfs_sha256 or entry.blob_id)


def _listing(name: HubName, storage: Path, commit: str) -> dict[str, TreeCacheEntry]:
    """All files of a commit by path: from the cache, else of the hub, which the cache then keeps."""
    from huggingface_hub import HfApi, RepoFile

    # Private: the public get_cached_repo_tree leaves out the sha256 of large files.
    from huggingface_hub._tree_cache import TreeCacheEntry, read_tree_cache, write_tree_cache

    cached = listed = read_tree_cache(str(storage), commit)
    if listed is None:
        tree = HfApi().list_repo_tree(name.id, recursive=True, revision=commit, repo_type=name.kind)
        files = [entry for entry in tree if isinstance(entry, RepoFile)]
        large = {file.path: (file.lfs.sha256, file.lfs.size) for file in files if file.lfs}
        listed = {file.path: TreeCacheEntry(file.size, file.blob_id, *large.get(file.path, ())) for file in files}
    for path, entry in listed.items():
        if not _DIGEST.fullmatch(_digest(entry)):
            raise HubError(f"{name}: the hub lists {path} with the digest {_digest(entry)!r}; {_OTHER_HUB}")
    if cached is None:
        write_tree_cache(str(storage), commit, listed)
    return listed


def model_config(place: str, folder: Path, *, online: bool = False) -> dict[str, Any] | None:
    """The sizes of a model as config.json names them; None where there is no such file.

    Args:
        place: a name of the hub, or a folder.
        folder: where relative paths start.
        online: whether the config.json of a name of the hub may be fetched; else it must be in the cache.

    Raises:
        HubError: the hub cannot be asked.
        ValueError: the file is damaged.
    """
    name = model_name(place, folder)
    file = one_file(name, "config.json", online=online) if name else folder / place / "config.json"
    if file is None or not file.is_file():
        return None
    return model_settings(file)


def local_files(paths: Sequence[str]) -> list[Path]:
    """Files as they are, or for a listing of the rule `fetch` its files in the cache; no network is needed.

    Raises:
        HubError: a file of the listing is missing or has another size, as after `hf cache prune`.
    """
    from huggingface_hub import try_to_load_from_cache

    listing = Path(paths[0])
    if not listing.match("results/*/hub/*.json"):
        return [Path(path) for path in paths]
    listed = json.loads(listing.read_text(encoding="utf-8"))
    files = []
    for name, entry in listed["files"].items():
        file = try_to_load_from_cache(listed["id"], name, revision=listed["commit"], repo_type=listed["kind"])
        if not isinstance(file, str) or Path(file).stat().st_size != entry["size"]:
            raise HubError(
                f"{listed['id']}: {name} is no longer in the cache (HF_HOME): delete {listing} and run snakemake again"
            )
        files.append(Path(file))
    return files


def data_file(source: str, folder: Path) -> Path:
    """A file of questions or rows: below the folder, or of the hub, from which it is fetched.

    Raises:
        HubError: as `snapshot`, or the data set has no such file.
    """
    name = data_name(source)
    if name is None:
        return folder / source
    file = one_file(name, name.file, online=True)
    if file is None:
        raise HubError(f"{name}: the data set has no file {name.file}")
    return file


def one_file(name: HubName, file: str, *, online: bool) -> Path | None:
    """The path of one file in the cache; None if the repository, or offline the cache, lacks it.

    Raises:
        HubError: online, as `snapshot`.
    """
    from huggingface_hub import try_to_load_from_cache

    if online:
        folder, entries = snapshot(name, {"allow_patterns": [file]})
        return folder / file if file in entries else None
    cached = try_to_load_from_cache(name.id, file, revision=name.revision, repo_type=name.kind)
    return Path(cached) if isinstance(cached, str) else None
