"""A first configuration for a file of questions and a model: `dphrl init`."""
