"""The pinned files under envs/."""

import re
from pathlib import Path

ENVS = Path(__file__).resolve().parents[2] / "envs"


def test_packages_of_cuda_do_not_overwrite_each_other():
    """Before version 13 cuda-python has the files of cuda-bindings; afterwards it only names the one it belongs to."""
    pins = dict(re.findall(r"^([a-z0-9-]+)==([0-9.]+)", (ENVS / "gpu.txt").read_text(), re.MULTILINE))
    assert int(pins["cuda-python"].split(".")[0]) >= 13
    assert pins["cuda-python"] == pins["cuda-bindings"]
