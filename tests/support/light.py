"""A light installation, imitated in another process: the libraries of the extras cannot be found."""

EXTRAS = (
    "accelerate",
    "deepspeed",
    "huggingface_hub",
    "latex2sympy2_extended",
    "math_verify",
    "peft",
    "psutil",
    "snakemake",
    "sqlglot",
    "sympy",
    "torch",
    "transformers",
    "vllm",
)
# The beginning of a script.
WITHOUT_EXTRAS = f"""
import sys
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder

class Found(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.split(".")[0] in {EXTRAS} else super().find_spec(name, path, target)

sys.meta_path = [BuiltinImporter, FrozenImporter, Found]
"""
