"""Weights and gradients too large for a golden file: the rule that tests/support/drawn_weights.h has, too."""
import math
import zlib

import torch


def drawn(name, shape, scale=1.0, shift=0.0):
    """Numbers from shift - scale to shift + scale by a hash of the index and the name."""
    count = math.prod(shape)
    word = (torch.arange(count, dtype=torch.int64) + zlib.crc32(name.encode())) & 0xFFFFFFFF
    for shift_bits, factor in ((16, 0x45D9F3B), (15, 0x2C1B3C6D), (16, 1)):
        word = ((word ^ (word >> shift_bits)) * factor) & 0xFFFFFFFF
    return ((word.double() / 2**31 - 1) * scale + shift).float().view(shape)
