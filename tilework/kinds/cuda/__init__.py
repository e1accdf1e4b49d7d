"""NVIDIA GPUs: targets ``cuda ...``."""
