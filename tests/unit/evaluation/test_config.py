"""The evaluate and report blocks."""

import pytest
from pydantic import ValidationError

from dphrl.config.blocks.evaluation import EvaluateConfig


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"k": [2, 1]}, "write .1, 2."),
        ({"hotter": [1.6, 1.3]}, "write .1.3, 1.6."),
        ({"datasets": ["a", "a"]}, "twice"),
    ],
)
def test_mistakes_are_refused(block, message):
    with pytest.raises(ValidationError, match=message):
        EvaluateConfig(**block)
