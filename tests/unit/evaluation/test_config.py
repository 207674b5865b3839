"""The evaluate and report blocks."""

import pytest
from pydantic import ValidationError

from dphrl.config.blocks.evaluation import EvaluateConfig, ReportConfig


def test_defaults_are_valid_and_described():
    for model in (EvaluateConfig, ReportConfig):
        assert model(**model().model_dump()) == model()
        assert all(field.description for field in model.model_fields.values())


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"k": [2, 1]}, "write .1, 2."),
        ({"hotter": [1.6, 1.3]}, "write .1.3, 1.6."),
        ({"k": [0]}, "greater than or equal to 1"),
        ({"k": []}, "at least 1"),
        ({"datasets": ["a", "a"]}, "twice"),
        ({"colour": 1}, "Extra inputs"),
        ({"bootstrap": {"replicates": 10}}, "100"),
        ({"bootstrap": {"confidence": 1.0}}, "less than 1"),
        ({"styles": {"sql": [{"name": "other", "prefix": "x"}]}}, "choose another name"),
        ({"styles": {"sql": [{"name": "a", "prefix": "x"}, {"name": "a", "prefix": "y"}]}}, "names 'a' twice"),
        ({"styles": {"sql": [{"name": "a", "prefix": "x"}, {"name": "b", "prefix": "xy"}]}}, "put 'b' first"),
    ],
)
def test_mistakes_are_refused(block, message):
    with pytest.raises(ValidationError, match=message):
        EvaluateConfig(**block)
