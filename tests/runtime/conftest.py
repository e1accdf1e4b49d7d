from __future__ import annotations

import numpy as np
import pytest

from tilework import Target, zoo
from tilework import compile as compile_network

IMAGE = (32, 32, 3)


@pytest.fixture(scope="session")
def target():
    return Target("llvm -mcpu=native -num-cores=2")


@pytest.fixture(scope="session")
def mlp():
    return zoo.get("mlp", batch=2)


@pytest.fixture(scope="session")
def mlp_module(mlp, target):
    return compile_network(mlp, target)


@pytest.fixture
def image(mlp):
    shape = mlp.inputs["data"].shape
    return np.random.default_rng(3).standard_normal(shape).astype("float32")
