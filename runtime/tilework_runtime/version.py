"""The version of the package: that of Tilework."""

__version__ = "0.1.0"
