"""Responses: requests with their seeds, and the engines or files of recorded responses that answer them."""
