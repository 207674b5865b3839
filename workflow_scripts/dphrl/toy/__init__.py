"""The embedded world: databases, questions, a supervised corpus, and a base model trained from scratch."""
