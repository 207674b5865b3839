"""A key-value cache whose rows come and go while it is used."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.functional import pad
from transformers import DynamicCache


class RowCache(DynamicCache):
    """Keys and values (rows, heads, positions, width) of each layer; rows end together, shorter ones begin later."""

    def keep(self, rows: Sequence[int], positions: int) -> None:
        """Keep these rows, in this order (one may come twice), and their last `positions` positions."""
        for layer in self.layers:
            index = torch.tensor(rows, dtype=torch.int64, device=layer.keys.device)
            start = layer.keys.shape[-2] - positions
            layer.keys, layer.values = (states[index, :, start:] for states in (layer.keys, layer.values))

    def join(self, other: RowCache) -> None:
        """Take the rows of `other` behind its own."""
        positions = max(self.get_seq_length(), other.get_seq_length())
        for ours, theirs in zip(self.layers, other.layers, strict=True):
            ours.keys, ours.values = (
                torch.cat([pad(states, (0, 0, positions - states.shape[-2], 0)) for states in both])
                for both in ((ours.keys, theirs.keys), (ours.values, theirs.values))
            )
