"""Training: stored reference responses, the schedule, the step, DeepSpeed, the verified weight push, segments."""
