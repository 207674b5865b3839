"""What a task is: rows of a dataset as prompts and gold."""

from dphrl.tasks.overlap import overlap
from dphrl.tasks.prepare import Prepared, gold_of, prepare, prompt_id
from dphrl.tasks.source import SourceError, read_source
from dphrl.tasks.template import encoder

__all__ = ["Prepared", "SourceError", "encoder", "gold_of", "overlap", "prepare", "prompt_id", "read_source"]
