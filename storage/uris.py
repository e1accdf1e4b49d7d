"""What a user wrote to name a store, without repeating a password to anyone."""

from __future__ import annotations

import re
from urllib.parse import unquote

ADDED = {"s3": "allow_delayed_open=true", "gs": "retry_limit_seconds=20"}
"""What is added to the query of URIs for Arrow: of S3, a small file is one request, not three; of
Google's, a server that does not answer is said to be away, and not asked for a quarter of an hour.
"""
_STRUCK = "***"
_SECRET_KEY = re.compile("key|secret|token|sig|sas|password")


def is_uri(text: str) -> bool:
    """Whether a text names a filesystem, such as `s3://bucket/records`; else it is a path."""
    return "://" in text


def shown(text: str) -> str:
    """A path or URI as messages may show it: without user, password and query."""
    if not is_uri(text):
        return text
    scheme, _, rest = text.partition("://")
    rest = rest.partition("?")[0]
    return f"{scheme}://{rest if _names_container(text) else rest.rpartition('@')[2]}"


def without_secrets(message: str, text: str) -> str:
    """A message about the URI `text`, with whatever is secret in it struck out."""
    for option in ADDED.values():
        message = message.replace(f"?{option}", "").replace(f"&{option}", "")
    message = message.replace(text, shown(text))
    for secret in _secrets(text):
        message = message.replace(secret, _STRUCK)
    return message


def _secrets(text: str) -> list[str]:
    """What must not be repeated, as it is written and as it is meant, the longest first."""
    user = _user(text)
    query = text.partition("?")[2] if is_uri(text) else ""
    secrets = [user, *user.split(":", 1), query, *_secret_values(text)]
    both = {form for part in secrets for form in (part, unquote(part)) if len(form) > 2}
    return sorted(both, key=len, reverse=True)


def _user(text: str) -> str:
    """User and password of a URI; a secret may hold a slash that was not quoted."""
    return "" if not is_uri(text) or _names_container(text) else _before_at(text)


def _before_at(text: str) -> str:
    return text.partition("://")[2].partition("?")[0].rpartition("@")[0]


def _secret_values(text: str) -> list[str]:
    pairs = [pair.partition("=") for pair in text.partition("?")[2].split("&")]
    return [value for key, _, value in pairs if is_uri(text) and _SECRET_KEY.search(key.lower())]


def _names_container(text: str) -> bool:
    """In `abfs://container@account` it is a place, and no user; `:password@account` is one."""
    return text.startswith(("abfs://", "abfss://")) and ":" not in _before_at(text)
