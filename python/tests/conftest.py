import numpy as np
import pytest

KINDS = ["u64", "i64", "f64", "f32", "u8[3]", "f32[128]", "i16[2,3]"]


@pytest.fixture
def random():
    return np.random.default_rng(1)


def draw_values(random, value, shape):
    """Random values for a table of this kind, small integers that any dtype has."""
    from isotherm._types import parse_value

    dtype, row = parse_value(value)
    return random.integers(0, 100, tuple(shape) + row).astype(dtype)
