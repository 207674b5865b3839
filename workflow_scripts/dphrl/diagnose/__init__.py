"""Whether a tuned model lost its diversity, from files of samples of the base model and of tuned ones."""
