"""The headline table on a page, of one run or of several side by side."""

from collections.abc import Mapping
from html import escape

from dphrl.report.names import in_order, label
from dphrl.report.page_parts import card
from dphrl.report.text import Headline, metric_name

READING = (
    "Greedy, mean and pass@k are in per cent; brackets hold the bootstrap interval over questions. Styles are counted"
    " among all samples of a question, right answers and right programs among its correct samples; counts are means per"
    " question."
)


def headline_html(runs: Mapping[str, Headline], dataset: str) -> str:
    """The results on one dataset: a row per policy, by method, then by run; all text is escaped.

    Args:
        runs: headline tables by the name of the run, which is shown where there are several.
        dataset: which all runs have.
    """
    metrics = next(iter(runs.values())).metrics(dataset)
    heads = "".join(f'<th scope="col">{escape(metric_name(metric))}</th>' for metric in metrics)
    policies = [(policy, run) for run, headline in runs.items() for policy in headline.policies]
    order = in_order(policy[0] for policy, _ in policies)
    rows = []
    for policy, run in sorted(policies, key=lambda one: order.index(one[0][0])):
        method, seed, step = policy
        detail = ([run] if len(runs) > 1 else []) + ([f"seed {seed}, step {step}"] if step else [])
        named = f"{escape(label(method))}<small>{escape(', '.join(detail))}</small>"
        cells = (runs[run].cell(policy, dataset, metric) for metric in metrics)
        values = "".join(f"<td>{cell[0]}<small>{cell[1]}</small></td>" if cell else "<td>-</td>" for cell in cells)
        mark = ' class="base"' if method == "base" else ""
        rows.append(f'<tr{mark}><th scope="row">{named}</th>{values}</tr>')
    head = f'<caption>{escape(dataset)}</caption><thead><tr><th scope="col">Policy</th>{heads}</tr></thead>'
    return card(f"Results on {dataset}", f"<table>{head}<tbody>{''.join(rows)}</tbody></table>")
