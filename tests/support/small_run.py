"""A small run folder: two datasets, tiny Llamas as base and trained policy, most kinds of table."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from tiny_models import EOS, TOKENS, write_tiny_policy

from dphrl.config import slices
from dphrl.config.load import load_config
from dphrl.data.partition import candidates, refine
from dphrl.evaluation.per_prompt import classes_shown, evaluate
from dphrl.policy.batch import Row
from dphrl.policy.logprobs import LogProbs, load_model, response_logprobs
from dphrl.report.audit_files import AUDITED
from dphrl.store.catalogue import SCHEMAS
from dphrl.store.files import sha256_file, visible_files, write_text
from dphrl.store.manifest import manifest_digest, read_manifest, write_manifest, write_sums
from dphrl.store.parquet import ADDED, read_footer, read_table, table_digest, write_table
from dphrl.store.stage import library_version
from dphrl.training.reference import reference_rows, save_tensors, tensorise

BASE, TRAINED = "base", "grpo-s1/step2"
CANDIDATES, FINAL = "draws/main/partition/candidates.parquet", "draws/main/partition/final.parquet"
TENSORS, INDEX = "draws/main/reference/responses.safetensors", "draws/main/reference/index.parquet"
# Of the tokenizer's tokens the model knows padding, the end and eight letters.
VOCABULARY = 10
_DATASET = {"task": "math", "source": "questions.jsonl"}
# What the run would be made from.
CONFIG = load_config(
    {
        "run": "run",
        "toy": {},
        "datasets": {"train": _DATASET, "eval": _DATASET},
        "train_dataset": "train",
        "sampling": {"presample": {"n": 2}, "evaluate": {"n": 2, "greedy": True}},
        "partition": {"pef_min_correct": 2},
        "methods": {"grpo": {"rollout_on": "all"}},
        "evaluate": {"datasets": ["eval"], "k": [1, 2]},
    }
)
_OUTSIDE = "questions.jsonl"


@dataclass(frozen=True)
class SmallRun:
    """A run folder and how its tables are read and written again."""

    root: Path

    def read(self, path: str) -> pl.DataFrame:
        """The rows of a table."""
        return pl.read_parquet(self.root / path)

    def rewrite(self, path: str, frame: pl.DataFrame) -> None:
        """Other rows under the same footer, as if the job had a fault: digest and seal fit."""
        self._write(path, frame, self.footer(path))

    def _write(self, path: str, frame: pl.DataFrame, footer: dict[str, Any]) -> None:
        table, rest = self.root / path, {name: value for name, value in footer.items() if name not in ADDED}
        files = [table.with_name(name) for name in footer.get("files", {})]
        write_table([frame], footer["schema"], table, rest, files)

    def footer(self, path: str) -> dict[str, Any]:
        """The footer of a table."""
        return read_footer(self.root / path)

    def change_footer(self, path: str, change: Callable[[dict[str, Any]], object]) -> None:
        """Change the footer of a table in place, under a seal that fits."""
        footer = self.footer(path)
        change(footer)
        self._write(path, self.read(path), footer)

    def finish(self) -> None:
        """The timings and the list of a finished run, as the rule `audit` leaves them."""
        timings = SCHEMAS["timings"].frame([("audit", "total", 1.0, None, None, 1.0)])
        write_table(timings, "timings", self.root / AUDITED, {"stage": "audit", **written_as(AUDITED)})
        write_sums(self.root, list(visible_files(self.root)), {})


def written_as(path: str) -> dict[str, str]:
    """The part of a footer that names the place of the file and the project."""
    return {"path": path, "made_by": f"dphrl {library_version('dphrl')}"}


class _Builder:
    def __init__(self, root: Path) -> None:
        self.root = root

    def footer(
        self, path: str, stage: str, config: dict[str, Any] | None = None, **inputs: str | list[str]
    ) -> dict[str, Any]:
        """The footer of the file at a path; inputs are paths, and `_OUTSIDE` a file from outside of the run."""
        read = {name: [paths] if isinstance(paths, str) else paths for name, paths in inputs.items()}
        return written_as(path) | {
            "stage": stage,
            "config": config or {},
            "code": "c0de",
            "inputs": {name: {"paths": paths, "digest": self.digest(*paths)} for name, paths in read.items()},
            "libraries": {},
            "seed": 1 if stage in ("train_segment", "sample") else None,
        }

    def table(self, frame: pl.DataFrame, schema: str, path: str, stage: str, **facts: Any) -> None:
        write_table(frame, schema, self.root / path, self.footer(path, stage, **facts))

    def digest(self, *paths: str) -> str:
        if paths[0] == _OUTSIDE:
            return "0" * 64
        if paths[0].endswith(".json"):
            return manifest_digest(read_manifest(self.root / paths[0]))
        if paths[0].endswith(".safetensors"):
            return sha256_file(self.root / paths[0])
        schema = read_footer(self.root / paths[0])["schema"]
        return table_digest([self.root / path for path in paths], schema)

    def policy(self, name: str, seed: int, **inputs: str | list[str]) -> None:
        folder = self.root / "policies" / name
        write_tiny_policy(folder, vocabulary=VOCABULARY, seed=seed, hidden_size=8, num_hidden_layers=1)
        stage = "train_segment" if inputs else "train_base"
        path = f"policies/{name}.json"
        write_manifest(self.root / path, self.footer(path, stage, **inputs))

    def dataset(self, name: str, prompts: int) -> None:
        rows = range(prompts)
        frame = pl.DataFrame(
            {
                "prompt_id": [f"{name}{i}" for i in rows],
                "task": "math",
                "messages": "[]",
                "prompt_token_ids": [[2 + i % 8, 3] for i in rows],
                "thought_open": False,
                "source": "toy",
                "source_index": list(rows),
                "level": None,
            }
        )
        read = {"policy": "policies/base.json", "source": _OUTSIDE}
        config = slices.prompts(CONFIG, name)
        self.table(frame, "prompts", f"prompts/{name}.parquet", "prepare_prompts", config=config, **read)
        rejected = pl.DataFrame(
            {"source_index": [99], "reason": ["malformed"], "detail": ["no answer"], "duplicate_of": [None]}
        )
        self.table(rejected, "rejected", f"prompts/{name}.rejected.parquet", "prepare_prompts", **read)
        gold = frame.select("prompt_id", ground_truth=pl.lit("{}"), verdict=pl.lit("correct"), kept=True)
        gold = gold.with_columns(reason=pl.lit(None, pl.String))
        inputs = {"prompts": f"prompts/{name}.parquet", "rejected": f"prompts/{name}.rejected.parquet"}
        config = slices.gold(CONFIG, name)
        self.table(gold, "gold", f"gold/{name}.parquet", "audit_gold", config=config, source=_OUTSIDE, **inputs)

    def rollouts(
        self, policy: str, dataset: str, plan: str, prompts: pl.DataFrame, indices: Sequence[int], shards: int
    ) -> None:
        """Samples and verdicts; correct are those that end with the end token."""
        module = LogProbs(load_model(self.root / "policies" / policy, "float32"))
        size = -(-prompts.height // shards)
        inputs = {
            "prompts": f"prompts/{dataset}.parquet",
            "policy": f"policies/{policy}.json",
        }
        if plan == "refine":
            inputs["partition"] = CANDIDATES
        for shard in range(shards):
            keys = [
                (prompt_id, tokens, index)
                for prompt_id, tokens in prompts.sort("prompt_id")
                .slice(shard * size, size)
                .select("prompt_id", "prompt_token_ids")
                .iter_rows()
                for index in indices
            ]
            ends = [not prompt_id.endswith(("1", "4")) for prompt_id, _, _ in keys]
            tokens = [
                [2 + (index + 3) % 8, 4, EOS if end else 5] for (_, _, index), end in zip(keys, ends, strict=True)
            ]
            logprobs = response_logprobs(module, [Row(k[1], t) for k, t in zip(keys, tokens, strict=True)], 64)
            frame = pl.DataFrame(
                {
                    "prompt_id": [key[0] for key in keys],
                    "sample_index": [key[2] for key in keys],
                    "seed": 1,
                    "token_ids": tokens,
                    "sampler_logprobs": [part.tolist() for part in logprobs],
                    "text": ["".join(TOKENS[i] for i in ids if i != EOS) for ids in tokens],
                    "finish_reason": ["stop" if end else "length" for end in ends],
                }
            )
            drawn = plan != "evaluate"
            place = f"draws/main/rollouts/{dataset}.{plan}" if drawn else f"rollouts/{policy}/{dataset}.{plan}"
            path = f"{place}/{shard}.parquet"
            self.table(frame, "rollouts", path, "sample", config=slices.sample(CONFIG, policy, dataset, plan), **inputs)
            none = {name: pl.lit(None, pl.String) for name in ("extracted", "answer_class", "program_class", "detail")}
            none["reads_table"] = pl.lit(None, pl.Boolean)
            correct = pl.Series("correct", ends)
            verdicts = frame.select("prompt_id", "sample_index").with_columns(
                correct,
                verdict=pl.when(correct).then(pl.lit("correct")).otherwise(pl.lit("wrong")),
                reward=correct.cast(pl.Float64),
                **none,
            )
            of_verdicts = {"rollouts": path, "gold": f"gold/{dataset}.parquet"}
            stage = "score"
            self.table(verdicts, "verdicts", path.replace("rollouts", "verdicts", 1), stage, **of_verdicts)


def build(root: Path) -> None:
    """Write the whole run."""
    builder = _Builder(root)
    builder.policy(BASE, seed=1)
    builder.dataset("train", 6)
    builder.dataset("eval", 3)
    prompts, gold = (pl.read_parquet(root / f"{name}/train.parquet") for name in ("prompts", "gold"))
    builder.rollouts(BASE, "train", "presample", prompts, [0, 1], shards=2)
    shards = [f"draws/main/verdicts/train.presample/{i}.parquet" for i in (0, 1)]
    config = CONFIG.partition
    verdicts = read_table([root / path for path in shards], "verdicts")
    builder.table(
        candidates(gold, verdicts, 2, config),
        "partition",
        CANDIDATES,
        "find_candidates",
        gold="gold/train.parquet",
        verdicts=shards,
    )
    divided = pl.read_parquet(root / CANDIDATES)
    near_perfect = divided.filter(subset="pef")
    builder.rollouts(BASE, "train", "refine", prompts.join(near_perfect, on="prompt_id", how="semi"), [0], shards=1)
    refined = pl.read_parquet(root / "draws/main/verdicts/train.refine/0.parquet")
    builder.table(
        refine(divided, refined, config),
        "partition",
        FINAL,
        "refine",
        partition=CANDIDATES,
        verdicts="draws/main/verdicts/train.refine/0.parquet",
    )
    final, rollouts = (pl.read_parquet(root / name) for name in (FINAL, "draws/main/rollouts/train.refine/0.parquet"))
    policy = LogProbs(load_model(root / "policies/base", "float32"))
    parts = tensorise([reference_rows(final, prompts, rollouts)], policy, 64, top_k=3)
    (index,) = save_tensors(parts, root / TENSORS)
    inputs = {
        "partition": FINAL,
        "prompts": "prompts/train.parquet",
        "rollouts": "draws/main/rollouts/train.refine/0.parquet",
        "policy": "policies/base.json",
    }
    footer = builder.footer(INDEX, "tensorise", slices.reference(CONFIG, "reference"), **inputs)
    write_table([index], "reference_index", root / INDEX, footer, [root / TENSORS])
    inputs = {
        "partition": FINAL,
        "prompts": "prompts/train.parquet",
        "gold": "gold/train.parquet",
        "reference": TENSORS,
        "policy": "policies/base.json",
    }
    metrics = pl.DataFrame({"step": [1, 2], "metric": "loss", "value": [1.0, 0.5]})
    builder.table(metrics, "metrics", f"train/{TRAINED}/metrics.parquet", "train_segment", **inputs)
    probes = SCHEMAS["probes"].frame([(0, "p0", 0, "exp", "7", "7", True, None)])
    builder.table(probes, "probes", f"train/{TRAINED}/probes.parquet", "train_segment", **inputs)
    state = f"states/{TRAINED}.json"
    write_text(root / f"states/{TRAINED}/rng.json", "{}")
    write_manifest(root / state, builder.footer(state, "train_segment", **inputs))
    builder.policy(TRAINED, seed=2, **inputs)
    for name in (BASE, TRAINED):
        builder.rollouts(name, "eval", "evaluate", pl.read_parquet(root / "prompts/eval.parquet"), [-1, 0, 1], shards=2)
        parts = {k: [f"{k}/{name}/eval.evaluate/{i}.parquet" for i in (0, 1)] for k in ("rollouts", "verdicts")}
        frames = [read_table([root / path for path in paths], kind) for kind, paths in parts.items()]
        builder.table(
            evaluate(*frames, [], classes_shown(frames[1:])).with_columns(
                cluster=pl.lit(None, pl.String), level=pl.lit(None, pl.String)
            ),
            "evaluation",
            f"evaluation/{name}/eval.parquet",
            "evaluate_policy",
            gold="gold/eval.parquet",
            prompts="prompts/eval.parquet",
            **parts,
        )
    training = metrics.with_columns(method=pl.lit("grpo"), seed=1)
    of_training = {"grpo/1/0": f"train/{TRAINED}/metrics.parquet"}
    builder.table(training, "training", "tables/training.parquet", "collect_training", **of_training)
    write_text(root / "tables/headline.csv", "| nothing |\n")
    write_text(root / "figures/training.json", json.dumps({"mark": "line"}))
    timings = {
        "stage": "refine",
        "part": "total",
        "seconds": 1.0,
        "tokens": None,
        "tokens_per_s": None,
        "max_rss_mib": 1.0,
    }
    path = root / f"timings/{FINAL}"
    write_table(pl.DataFrame([timings]), "timings", path, {"stage": "refine"} | written_as(f"timings/{FINAL}"))
