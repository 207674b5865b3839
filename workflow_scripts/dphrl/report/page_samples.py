"""The samples on the page: a filter, and each prompt with the responses of all policies side by side."""

from collections.abc import Iterable, Sequence
from html import escape

from dphrl.report.page_parts import paragraph
from dphrl.report.samples import Response, Sample

_WORDS = (
    "Prompts in equal parts among those whose samples of the base are all right, some right and all wrong; which ones"
    " is by a hash of their ids, and the responses are the first ones drawn, so nobody chose them."
)


def samples_html(samples: Sequence[Sample]) -> str:
    """Filter and prompts; without a script all prompts are shown and the filter is not. All text is escaped."""
    shown = "".join(_sample(number, sample) for number, sample in enumerate(samples, start=1))
    return f"{paragraph(_WORDS)}{_filter(samples)}{shown}"


def _filter(samples: Sequence[Sample]) -> str:
    everything = [response for sample in samples for found in sample.responses.values() for response in found]
    choices = {
        "dataset": dict.fromkeys(sample.dataset for sample in samples),
        "policy": dict.fromkeys(policy for sample in samples for policy in sample.responses),
        "verdict": dict.fromkeys(sorted({response.verdict for response in everything})),
    }
    fields = "".join(_choice(name, values) for name, values in choices.items())
    return f"""<form class="filter" id="filter" aria-label="Filter the samples" hidden>{fields}
<button type="button">Show all</button>
<output for="{" ".join(f"filter-{name}" for name in choices)}"></output></form>
"""


def _choice(name: str, values: Iterable[str]) -> str:
    options = "".join(f'<option value="{escape(value)}">{escape(value)}</option>' for value in values)
    return (
        f'<div><label for="filter-{name}">{name.capitalize()}</label>'
        f'<select id="filter-{name}" name="{name}"><option value="">all</option>{options}</select></div>'
    )


def _sample(number: int, sample: Sample) -> str:
    messages = "".join(
        f'<div class="message"><p class="role">{escape(role)}</p><pre>{escape(text)}</pre></div>'
        for role, text in sample.messages
    )
    answers = "".join(_answers(policy, found) for policy, found in sample.responses.items())
    return f"""<article class="sample card" data-dataset="{escape(sample.dataset)}" aria-labelledby="sample-{number}">
<h3 id="sample-{number}">{escape(sample.dataset)}, prompt {escape(sample.prompt_id[:12])}</h3>
<p class="role">{sample.solved} solved by the base ({sample.c} of {sample.n} samples)</p>
<details open><summary>Prompt and gold answer</summary>
{messages}<div class="message"><p class="role">gold</p><pre>{escape(sample.gold)}</pre></div></details>
<div class="policies">{answers}</div>
</article>
"""


def _answers(policy: str, responses: Sequence[Response]) -> str:
    shown = "".join(_response(response) for response in responses)
    return f'<div class="policy" data-policy="{escape(policy)}"><h4>{escape(policy)}</h4>{shown}</div>\n'


def _response(response: Response) -> str:
    name = "greedy" if response.index < 0 else f"sample {response.index}"
    mark = "right" if response.verdict == "correct" else "wrong"
    reason = f'<p class="reason">{escape(response.reason)}</p>' if response.reason else ""
    return (
        f'<div class="response {mark}" data-verdict="{escape(response.verdict)}">'
        f'<p class="role">{name}: <strong>{escape(response.verdict)}</strong></p>'
        f"<pre>{escape(response.text)}</pre>{reason}</div>"
    )
