"""What a run's first stages made, in files that another trainer reads: prompts, stored responses, the judge."""
