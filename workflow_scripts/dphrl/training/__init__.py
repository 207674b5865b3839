"""Training: the schedule, the step, DeepSpeed, the verified weight push, and segments that can be restarted."""
