"""Drawing responses: plans and seeds, and what serves them: an engine, or a file of recorded answers.

The engines are imported by the name of their module: a run of recorded answers needs neither of them nor torch.
"""
