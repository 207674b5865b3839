"""The audit of a run: every artifact checked by itself and against the others, and any artifact shown as text."""
