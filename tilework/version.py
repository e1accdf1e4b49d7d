"""The version of the package, for records and files."""

__version__ = "0.1.0"
