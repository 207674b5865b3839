"""Weights between two models: exact, streamed, and refused where the models differ."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from dphrl.policy.mixture import mix
from dphrl.store.files import sha256_file

SHAPES = {"embed.weight": (50, 8), "norm.weight": (8,), "scale": ()}


def _model(folder: Path, dtype: torch.dtype, seed: int, shards: bool = False) -> dict[str, Tensor]:
    folder.mkdir()
    generator = torch.Generator().manual_seed(seed)
    weights = {name: torch.randn(shape, generator=generator).to(dtype) for name, shape in SHAPES.items()}
    (folder / "config.json").write_text("{}")
    if not shards:
        save_file(weights, folder / "model.safetensors")
        return weights
    places = {name: f"model-{number}-of-3.safetensors" for number, name in enumerate(weights, 1)}
    for name, place in places.items():
        save_file({name: weights[name]}, folder / place)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    return weights


@pytest.mark.parametrize("dtypes", [(torch.float32,) * 2, (torch.bfloat16,) * 2, (torch.float32, torch.float16)])
def test_each_weight_is_the_mean_in_float64_rounded_once(
    dtypes: tuple[torch.dtype, torch.dtype], tmp_path: Path
) -> None:
    base, policy = (_model(tmp_path / str(n), dtype, n, shards=n == 0) for n, dtype in enumerate(dtypes))
    (out := tmp_path / "out").mkdir()
    digests = mix(tmp_path / "0", tmp_path / "1", 0.25, out)
    mixed = load_file(out / "model.safetensors")
    assert mixed.keys() == policy.keys()
    for name, weight in mixed.items():
        assert torch.equal(weight, (0.75 * base[name].double() + 0.25 * policy[name].double()).to(dtypes[1]))
    assert digests == {"model.safetensors": sha256_file(out / "model.safetensors")}
    assert sorted(file.name for file in out.iterdir()) == ["config.json", "model.safetensors"]


def test_another_model_is_refused_by_its_tensor(tmp_path: Path) -> None:
    _model(tmp_path / "base", torch.float32, 0)
    (tmp_path / "policy").mkdir()
    save_file({"embed.weight": torch.zeros(51, 8)}, tmp_path / "policy/model.safetensors")
    (tmp_path / "out").mkdir()
    with pytest.raises(ValueError, match=r"embed\.weight has the shape \[51, 8\]"):
        mix(tmp_path / "base", tmp_path / "policy", 0.5, tmp_path / "out")


def test_memory_does_not_grow_with_the_model(tmp_path: Path) -> None:
    """A tensor of 64 MB is never whole in memory."""
    for name in ("base", "policy"):
        (tmp_path / name).mkdir()
        save_file({"weight": torch.zeros(1 << 14, 1 << 10)}, tmp_path / name / "model.safetensors")
    (tmp_path / "out").mkdir()
    code = (
        "import resource, sys; from pathlib import Path; from dphrl.policy.mixture import mix\n"
        "folder = Path(sys.argv[1]); before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "mix(folder / 'base', folder / 'policy', 0.5, folder / 'out')\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    # Pages of the mapped files count too, 2 x 64 MB. Whole tensors in float64 need 3 x 128 MB more.
    assert int(done.stdout) < 400
