"""Settings of the processes of a run for speed and memory; no result depends on them."""

import gc
import os
from ctypes.util import find_library

# Two names of the settings of PyTorch's allocator, the older one last.
_ALLOCATOR = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
# A plan keeps nearly all that it makes, and imports leave little: looking for garbage took a quarter of a dry run, and
# 0.9 s of a job with torch.
_OBJECTS_BETWEEN_COLLECTIONS = 50_000


def tune_launcher() -> None:
    """Settings of Snakemake's process, and the allocator of its jobs: tcmalloc, where the machine has it.

    Under glibc's allocator batches of changing shape let the memory of a training grow (docs/benchmarks.md). Debian has
    tcmalloc in libtcmalloc-minimal4. Where LD_PRELOAD is set, it stays.
    """
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    if allocator := find_library("tcmalloc_minimal"):
        os.environ.setdefault("LD_PRELOAD", allocator)


def tune_job(gpus: int, tensor_parallel: int) -> None:
    """Settings of a job's process and its children, before they import torch. What the user has set stays.

    Args:
        gpus: of the job; 0 leaves the allocator of GPU memory as it is.
        tensor_parallel: ranks per engine. Ranks that share an engine keep fixed blocks of GPU memory: vLLM's all-reduce
            between GPUs cannot export blocks that grow (docs/decisions/models-on-the-gpu.md).
    """
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    # On a CPU oneDNN keeps its last 1,024 products by shape. Shapes change with each batch, so few come again: with 64
    # a training takes 0.5 GB less (docs/benchmarks.md).
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    if gpus and tensor_parallel == 1 and not any(name in os.environ for name in _ALLOCATOR):
        os.environ[_ALLOCATOR[0]] = "expandable_segments:True"
