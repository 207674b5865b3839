"""The experiments of config/experiments, and the digests of their configurations.

`python tests/support/experiments.py` writes the digests again, after a change of a key or a default that is meant.
"""

import hashlib
import json
import re
from pathlib import Path

import yaml

from dphrl.config.config import Config
from dphrl.config.load import read_config

ROOT = Path(__file__).resolve().parents[2]
DEMO = "config"
DIGESTS = ROOT / "tests" / "data" / "digests_of_configurations.yaml"
_FOLDER = ROOT / "config" / "experiments"
NAMES = sorted(path.stem for path in _FOLDER.glob("*.yaml"))
OF_LLAMA = ("eta-ablation", "alpha-ablation", "generator-definition", "rkl-estimators", "llama-sql-maths")
# The experiment that another one changes.
OVERLAYS = {name: "demo-full" for name in NAMES if name.startswith(("world-", "demo-full-", "draws"))}
OVERLAYS |= {"arena": "demo-full", "arena-free": "arena", "arena-hot": "arena", "arena-added": "arena"}
OVERLAYS |= {"arena-stage-2": "arena-added"}
OVERLAYS |= {name: name.removesuffix("-equal-steps") for name in NAMES if name.endswith("-equal-steps")}
OVERLAYS |= dict.fromkeys(OF_LLAMA, "llama-sql") | {"demo-llm-full": "demo-llm"}


def header(name: str) -> str:
    """The lines of an experiment's file above its first key."""
    return re.split(r"^\w", (_FOLDER / f"{name}.yaml").read_text(encoding="utf-8"), maxsplit=1, flags=re.MULTILINE)[0]


def files_of(name: str) -> list[Path]:
    """The files of an experiment, as the command in its header has them."""
    commands = re.findall(r"--configfile ((?: *config/experiments/\S+)+)", header(name))
    (files,) = (files for files in map(str.split, commands) if Path(files[-1]).stem == name)
    return [ROOT / file for file in files]


def experiment(name: str) -> Config:
    """The configuration of an experiment, and of the demo by the name `config`."""
    return read_config(*([ROOT / "config" / "config.yaml"] if name == DEMO else files_of(name)))


def digest(name: str) -> str:
    """The sha256 of a configuration with all defaults. The order of keys counts: tables have methods in that order."""
    return hashlib.sha256(json.dumps(experiment(name).model_dump(mode="json")).encode()).hexdigest()


if __name__ == "__main__":
    DIGESTS.write_text(yaml.safe_dump({name: digest(name) for name in (DEMO, *NAMES)}), encoding="utf-8")
