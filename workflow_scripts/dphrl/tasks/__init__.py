"""What a task is: rows of a dataset as prompts and gold."""

from dphrl.tasks.databases import database_path
from dphrl.tasks.gold import gold_of
from dphrl.tasks.overlap import overlap
from dphrl.tasks.prepare import Prepared, prepare, prompt_id
from dphrl.tasks.schema import schema_of
from dphrl.tasks.source import SourceError, read_source
from dphrl.tasks.template import encoder

__all__ = [
    "Prepared",
    "SourceError",
    "database_path",
    "encoder",
    "gold_of",
    "overlap",
    "prepare",
    "prompt_id",
    "read_source",
    "schema_of",
]
