"""Results of a run's first stages in files for another trainer: prompts, stored responses, the judge."""
