"""What arXiv 2509.07430 measures."""


def published_k(dataset: str) -> int:
    """The k of the paper's pass@k on a dataset."""
    return {"aime24": 64, "aime25": 64, "amc23": 16}.get(dataset, 8)
