"""The blocks of the configuration: data, sampling, training, evaluation, and the embedded world."""
