"""Shared by all tests."""

from hypothesis import settings

# The duration of an example depends on the machine more than on the code.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
