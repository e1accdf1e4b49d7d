"""The network that most tests compile is that of the runtime's tests."""

from tests.runtime.conftest import image, mlp, mlp_module, target

__all__ = ["image", "mlp", "mlp_module", "target"]
