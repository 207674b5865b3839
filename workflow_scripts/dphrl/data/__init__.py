"""Questions and samples: rows of a dataset as prompts and gold, the partition, and files of samples of other tools.

Rollouts of a run are not here: `dphrl.policy` draws them, `dphrl.store` writes them.
"""
