"""A Hugging Face hub on the loopback interface: its repositories are folders, and it can fail as the real one does."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote

_LARGE = ".safetensors"  # the hub stores large files by their sha256
_PATH = re.compile(r"/(?:api/)?(?:models/)?(?P<repo>(?:datasets/)?[^/]+/[^/]+)/?(?P<rest>.*)")


@dataclass
class Hub:
    """A hub's repositories, how it fails, and how it lies.

    Attributes:
        folders: by "ORG/NAME" or "datasets/ORG/NAME".
        commits: the commit of "main" of each; 40 hex digits.
        errors: status and X-Error-Code of repositories that answer with an error.
        cuts: number of files whose transfer will break off in the middle.
        ranges: the first byte that each request for the content of a file asked for.
        commit: what it says is the commit of "main"; None: `commits`.
        entries: changes of each file in a listing.
        headers: changes of the headers of answers to HEAD.
        endless: "pages" of a listing, "redirects" or "bodies" that have no end.
        sent: MiB of the last kind, before compression.
    """

    folders: dict[str, Path]
    commits: dict[str, str] = field(default_factory=dict)
    errors: dict[str, tuple[int, str]] = field(default_factory=dict)
    cuts: int = 0
    ranges: list[tuple[str, int]] = field(default_factory=list)
    commit: str | None = None
    entries: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    endless: str = ""
    sent: int = 0
    url: str = ""

    def entry(self, repo: str, path: str) -> dict[str, Any]:
        """A file in the listing of its repository."""
        data = (self.folders[repo] / path).read_bytes()
        entry: dict[str, Any] = {"type": "file", "path": path, "size": len(data)}
        if path.endswith(_LARGE):
            # Git has a pointer in place of the file.
            entry["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 100}
            data = f"version https://git-lfs.github.com/spec/v1\noid sha256:{entry['lfs']['oid']}\n".encode()
        return entry | {"oid": hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()} | self.entries


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"
    # Else each answer waits 40 ms for an acknowledgement.
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        found = _PATH.fullmatch(unquote(self.path.partition("?")[0]))
        repo, rest = (found["repo"], found["rest"]) if found else ("", "")
        known = (200, "") if repo in self.hub.folders else (404, "RepoNotFound")
        status, code = self.hub.errors.get(repo, known)
        if status != 200:
            return self._answer(status, b"", {"X-Error-Code": code})
        folder, commit = self.hub.folders[repo], self.hub.commits.setdefault(repo, "1" * 40)
        kind, _, place = rest.partition("/")
        revision, _, file = place.partition("/")
        if revision not in ("", "main", commit):
            return self._answer(404, b"", {"X-Error-Code": "RevisionNotFound"})
        if kind == "tree":
            files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
            following = {"Link": f'<{self.hub.url}{self.path}>; rel="next"'} if self.hub.endless == "pages" else {}
            return self._answer(200, json.dumps([self.hub.entry(repo, path) for path in files]).encode(), following)
        if kind == "resolve":
            return self._content(repo, file, commit)
        told = self.hub.commit or commit
        return self._answer(200, json.dumps({"id": repo.removeprefix("datasets/"), "sha": told}).encode())

    do_HEAD = do_GET

    def _content(self, repo: str, file: str, commit: str) -> None:
        if not (self.hub.folders[repo] / file).is_file():
            return self._answer(404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit})
        if self.hub.endless == "redirects":
            return self._answer(307, b"", {"Location": self.path})
        entry, data = self.hub.entry(repo, file), (self.hub.folders[repo] / file).read_bytes()
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")[0])
        if self.command == "GET":
            self.hub.ranges.append((file, start))
        etag = entry["lfs"]["oid"] if "lfs" in entry else entry["oid"]
        cut = self.command == "GET" and file.endswith(_LARGE) and self.hub.cuts > 0
        self.hub.cuts -= cut
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": commit}
        if self.command == "GET" and self.hub.endless == "bodies":
            return self._without_end(headers)
        self._answer(206 if start else 200, data[start:], headers | self.hub.headers, cut)

    def _without_end(self, headers: dict[str, str]) -> None:
        """Zeros, compressed, until the client ends the connection."""
        self.send_response(200)
        for name, value in {**headers, "Transfer-Encoding": "chunked", "Content-Encoding": "gzip"}.items():
            self.send_header(name, value)
        self.end_headers()
        compressor, zeros = zlib.compressobj(wbits=31), bytes(2**20)
        with suppress(ConnectionError):
            while True:
                chunk = compressor.compress(zeros)
                self.hub.sent += 1
                if chunk:
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None, cut: bool = False) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body[: len(body) // 2] if cut else body)
        self.close_connection = cut

    def log_message(self, *arguments: Any) -> None:
        """Print nothing."""


@contextmanager
def serve(hub: Hub) -> Iterator[Hub]:
    """Serve a hub on a free port of this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    # A shutdown waits for the next poll: half a second by default.
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    yield hub
    server.shutdown()
    server.server_close()
