"""The embedded default: a small world of databases, questions and answers, and a base model trained from scratch."""
