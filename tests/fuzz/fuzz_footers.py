"""Damaged footers and manifests under digests that fit, flipped bytes: the audit names them, and nothing raises."""

from __future__ import annotations

import io
import json
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from faults import CONTROL
from faults import MODEL as BASE
from small_run import INDEX, TENSORS, SmallRun, build

from dphrl.artifacts.manifest import SUMS, read_sums, write_manifest
from dphrl.audit.run import audit_run, failed_checks, summary
from dphrl.cli import main

AUDIT = "audit/audit.parquet"
TEXTS = ["", "a", "refine", "train", "replay", "float32", "../../secret", "/etc/passwd", "a/b", "\0", "\n", "0" * 64]
TEXTS += ["\x1b]52;c;aGk=\x07", "\x9b2J", "\u202egnp", "\ud800", "é", "x" * 5000, "{dataset}", "%s", "nan", "1e9"]
NUMBERS = [0, 1, -1, 2, 7, 2**31, 2**63, 2**64, 10**30, -(10**30), 0.5, -0.0, 1e308, float("nan"), float("inf")]
VALUES: list[Any] = [None, True, False, [], {}, [[]], [None], {"": None}, {"a": {"b": {}}}, *TEXTS, *NUMBERS]
VALUES += [[*range(200)], {str(number): number for number in range(200)}]
# Of a model: a value that asks for much memory is not damage that an audit can find before it loads the model.
SMALL = [value for value in VALUES if not isinstance(value, int | float) or abs(value) < 10]


@dataclass
class Case:
    """A run with one damage, and how to take it back."""

    run: SmallRun
    random: Random
    before: dict[Path, bytes | None] = field(default_factory=dict)
    story: list[str] = field(default_factory=list)

    def keep(self, *files: Path) -> None:
        """Remember files as they are."""
        for file in files:
            self.before.setdefault(file, file.read_bytes() if file.is_file() else None)

    def restore(self) -> None:
        """Put back what was remembered."""
        for file, content in self.before.items():
            if content is None:
                file.unlink(missing_ok=True)
            else:
                file.write_bytes(content)

    def file(self, path: str) -> Path:
        """A file of the run, which is remembered."""
        self.keep(self.run.root / path)
        return self.run.root / path

    def pick(self, *endings: str) -> str:
        """The path of a file with such a name."""
        files = sorted(path for path in self.run.root.rglob("*") if path.is_file() and path.name.endswith(endings))
        return self.random.choice(files).relative_to(self.run.root).as_posix()

    def mutated(self, value: Any, values: list[Any]) -> Any:
        """A JSON value with another value, key or name somewhere in it."""
        value = deepcopy(value)
        for _ in range(self.random.choice([1, 1, 1, 2, 5])):
            value = self._mutated(value, values)
        return value

    def _mutated(self, value: Any, values: list[Any]) -> Any:
        inner = isinstance(value, dict | list) and value and self.random.random() < 0.85
        if not inner:
            new = self.random.choice(values)
            self.story.append(f"{json.dumps(value)[:80]} -> {json.dumps(new)[:80]}")
            return deepcopy(new)
        key = self.random.choice(list(value) if isinstance(value, dict) else range(len(value)))
        self.story.append(f"in {json.dumps(key)}")
        what = self.random.random()
        if what < 0.1:
            del value[key]
        elif what < 0.2 and isinstance(value, dict):
            value[self.random.choice(TEXTS)] = value.pop(key)
        elif what < 0.25 and isinstance(value, list):
            value += value
        else:
            value[key] = self._mutated(value[key], values)
        return value

    def cut(self, text: str) -> str:
        """JSON text that is damaged as text."""
        where = self.random.randrange(len(text))
        kind = self.random.randrange(6)
        self.story.append(f"text, kind {kind}, at {where}")
        if kind == 0:
            return text[:where]
        if kind == 1:
            return '{"a":' * self.random.choice([100, 900, 100_000]) + text
        if kind == 2:
            return "[" * 100_000
        if kind == 3:
            return text.replace(":", ": " + "9" * self.random.choice([20, 5000]), 1)
        if kind == 4:
            return text[:where] + self.random.choice([*TEXTS, '"', "}", ",", "NaN"]) + text[where + 1 :]
        return json.dumps(self.random.choice(VALUES))


def footer(case: Case) -> str:
    """The footer of a table, or a manifest."""
    path = case.random.choice([case.pick(".parquet"), BASE, "states/grpo-s1/step2.json"])
    case.file(path)
    found = case.run.footer(path)
    if case.random.random() < 0.2:
        case.run.set_footer(path, case.cut(json.dumps(found)).encode(errors="replace").decode())
    else:
        case.run.set_footer(path, case.mutated(found, VALUES))
    return path


def plan(case: Case) -> str:
    """The plan in the footer of rollouts."""
    shards = [path for path in case.run.root.rglob("*.parquet") if "/rollouts/" in str(path)]
    path = case.random.choice(sorted(shards)).relative_to(case.run.root).as_posix()
    case.file(path)
    found = case.run.footer(path)
    found["config"]["plan"] = case.mutated(found["config"]["plan"], VALUES)
    case.run.set_footer(path, found)
    return path


def flipped(case: Case) -> str:
    """Bytes of a table or a manifest."""
    path = case.random.choice([case.pick(".parquet"), BASE])
    file = case.file(path)
    data = bytearray(file.read_bytes())
    data[case.random.randrange(len(data))] ^= case.random.randrange(1, 256)
    file.write_bytes(data)
    return path


def sums(case: Case) -> str:
    """SHA256SUMS, where the run has it."""
    if not (case.run.root / SUMS).is_file():
        return flipped(case)
    text = case.file(SUMS).read_text()
    (case.run.root / SUMS).write_bytes(case.cut(text).encode(errors="surrogatepass"))
    return SUMS


def model(case: Case) -> str:
    """A file of the base policy, listed as it is."""
    name = case.random.choice(["config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"])
    file = case.run.root / "policies/base" / name
    case.keep(file, case.run.root / BASE)
    found = json.loads(file.read_text())
    text = case.cut(json.dumps(found)) if case.random.random() < 0.2 else json.dumps(case.mutated(found, SMALL))
    file.write_bytes(text.encode(errors="surrogatepass"))
    written = {key: value for key, value in case.run.footer(BASE).items() if key != "files"}
    write_manifest(case.run.root / BASE, written)
    return BASE


def tensors(case: Case) -> str:
    """The header of the stored tensors."""
    file = case.file(TENSORS)
    case.file(INDEX)
    data = bytearray(file.read_bytes())
    for _ in range(case.random.choice([1, 1, 2, 10])):
        data[case.random.randrange(min(len(data), 300))] = case.random.randrange(256)
    case.story.append(repr(bytes(data[:300])))
    file.write_bytes(data)
    case.run.relist(INDEX)
    return TENSORS


def stray(case: Case) -> str:
    """A file that no rule writes."""
    source = case.pick(".parquet", ".safetensors", ".json")
    bad = [text for text in TEXTS if text and "\0" not in text and "\ud800" not in text and len(text) < 200]
    name = case.random.choice(bad).replace("/", "_").replace("{", "").replace("%", "") or "x"
    folder = case.random.choice(["prompts", "policies/base", "draws/main/rollouts/train.presample", "states"])
    path = f"{folder}/{name} 1{Path(source).suffix}"
    case.file(path).write_bytes((case.run.root / source).read_bytes())
    return path


DAMAGES: list[Callable[[Case], str]] = [footer, footer, footer, plan, flipped, sums, model, tensors, stray]


def fuzz(random: Random, unfinished: Callable[[], bool]) -> Counter[str]:
    """Damage one file of a small finished run at a time; each must be named, or be no damage, and can be shown.

    Raises:
        AssertionError: with the case.
    """
    tally: Counter[str] = Counter()
    with TemporaryDirectory() as folder:
        run = SmallRun(Path(folder, "run"))
        with redirect_stderr(io.StringIO()):
            build(run.root)
            run.record({"refine": {"sources": ["refine.py"], "schemas": ["partition"]}})
        while unfinished():
            damage, case = random.choice(DAMAGES), Case(run, random)
            if random.random() < 0.5:  # an unfinished run has no audit that knows all bytes
                for path in (AUDIT, SUMS):
                    case.file(path).unlink()
            listed = {*read_sums(run.root), SUMS, AUDIT} if (run.root / SUMS).is_file() else set()
            try:
                path = damage(case)
                changed = case.before[run.root / path] != (run.root / path).read_bytes()
                tally[f"{damage.__name__}: {_checked(run, path, changed and path in listed)}"] += 1
            except Exception:
                shown = "\n".join(case.story)
                raise AssertionError(f"{damage.__name__}\n{shown}\n{traceback.format_exc()}") from None
            finally:
                case.restore()
    return tally


def _checked(run: SmallRun, path: str, known: bool) -> str:
    """The outcome: "named", or "no damage"."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as errors:
        table = audit_run(run.root)
        errors.truncate(0)
        print(summary(table))
        for command in ("show", "lineage"):
            for file in (path, "evaluation/grpo-s1/step2/eval.parquet"):
                assert main(["audit", command, str(run.root / file)]) in (0, 2), command
    printed = out.getvalue() + errors.getvalue().lstrip("\0")
    assert not CONTROL.search(printed), f"{path}: {CONTROL.findall(printed)} in\n{printed}"
    failed, folder = failed_checks(table), path.rpartition("/")[0]
    named = any(path in text for text in failed)
    assert not failed or any(folder in text for text in failed), f"{path} is not in\n{failed}"
    assert failed or named or not known, f"{path}: not named"
    return "named" if failed else "no damage"
