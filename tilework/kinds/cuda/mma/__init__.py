"""Sums of products on tensor cores."""
