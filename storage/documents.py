"""What a store keeps beside its records: texts by kind and name, each a file of its own.

A document is a Parquet file of no rows with the columns of a record; its content stands in the
footer. So whatever reads a store as a folder of Parquet files, hidden folders or not, gets exactly
the records. It lies at `_KIND/NAME.parquet`. Reading one executes nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from storage.files import Location
from storage.names import SUFFIX, safe_name
from storage.schema import SCHEMA, VERSION_KEY
from tilework.errors import StoreError
from tilework.record import SCHEMA_VERSION

CONTENT_KEY = b"tilework.document"
_DIGEST_KEY = b"tilework.sha256"
_OLD_SUFFIX = ".json"
LARGEST = 48 << 20
"""Bytes of the largest content: what the format's other readers take in a footer is limited."""


class NotDocument(ValueError):
    """A file that holds no document; the message says why."""


@dataclass(frozen=True)
class OldForm:
    """How documents of a kind were kept before: JSON objects in `NAME.json`.

    Attributes:
        content: takes the document's content from the object; raises if it is another's.
    """

    content: Callable[[str, dict[str, object]], str]


class Documents:
    """The documents of one kind in a store.

    Any text is a name; `names` gives names as files know them, which are names of the same
    documents. Any number of processes may write; the last one counts.

    Attributes:
        problems: one line for each document that was asked for and cannot be used.
    """

    def __init__(self, store: Location, kind: str, old: OldForm | None = None) -> None:
        self.kind = kind
        self.place = store.within(f"_{kind}")
        self._old = old
        self._bad: dict[str, str] = {}

    @property
    def problems(self) -> list[str]:
        """See the class's text."""
        return [self._bad[name] for name in sorted(self._bad)]

    def keep(self, name: str, content: str | bytes, *, durable: bool = True) -> None:
        """Writes a document, in place of an older one.

        Args:
            durable: return only when it has reached the disk. What can be made again need not.

        Raises:
            StoreError: the store cannot be written, or the content is larger than `LARGEST`.
        """
        stem = safe_name(name)
        self.place.write(stem + SUFFIX, self._encoded(stem, content), durable=durable)
        self._bad.pop(stem, None)

    def claim(self, name: str, content: str | bytes) -> bool:
        """Writes a document unless there is one of this name; whether this call wrote it.

        On object stores the last one counts, and all are told that they wrote it.

        Raises:
            StoreError: as for `keep`.
        """
        stem = safe_name(name)
        return self.place.create(stem + SUFFIX, self._encoded(stem, content))

    def read(self, name: str) -> bytes | None:
        """The content of a document; None if there is none, or none that can be read.

        Raises:
            StoreError: the store cannot be read.
        """
        stem = safe_name(name)
        try:
            content = decode(self.place.read(stem + SUFFIX))
        except FileNotFoundError:
            content = None
        except NotDocument as error:
            self._tell(stem, stem + SUFFIX, str(error))
            return None
        return self._read_old(stem) if content is None else self._good(stem, content)

    def names(self) -> list[str]:
        """The names of all documents, sorted, readable or not.

        Raises:
            StoreError: the store cannot be listed.
        """
        ends = (SUFFIX, _OLD_SUFFIX) if self._old else (SUFFIX,)
        parts = (name.rpartition(".") for name in self.place.names() if name.endswith(ends))
        return sorted({stem for stem, _, _ in parts})

    def remove(self, name: str) -> None:
        """Removes a document; one that is not there is no error.

        Raises:
            StoreError: it cannot be removed.
        """
        stem = safe_name(name)
        self.place.remove(stem + SUFFIX)
        if self._old:
            self.place.remove(stem + _OLD_SUFFIX)
        self._bad.pop(stem, None)

    def upgrade(self) -> None:
        """Writes documents of the old form in the present one, and removes the old files.

        Those that cannot be read stay as they are.

        Raises:
            StoreError: the store cannot be read or written.
        """
        for name in self.place.names():
            if not self._old or not name.endswith(_OLD_SUFFIX):
                continue
            stem = name.removesuffix(_OLD_SUFFIX)
            content = self._read_old(stem)
            if content is not None:
                self.place.create(stem + SUFFIX, self._encoded(stem, content))
                self.place.remove(name)

    def _encoded(self, stem: str, content: str | bytes) -> bytes:
        plain = content.encode() if isinstance(content, str) else content
        if len(plain) > LARGEST:
            raise StoreError(
                f"the document {stem!r} of kind {self.kind!r} has {len(plain)} bytes and a store "
                f"keeps up to {LARGEST}: {self.place.text!r} is left as it is"
            )
        return encode(plain)

    def _read_old(self, stem: str) -> bytes | None:
        if self._old is None:
            return None
        name = stem + _OLD_SUFFIX
        try:
            document = json.loads(self.place.read(name))
            return self._good(stem, self._old.content(stem, document).encode())
        except FileNotFoundError:
            self._bad.pop(stem, None)
        except (ValueError, KeyError, TypeError) as error:
            self._tell(stem, name, " ".join(str(error).split())[:200])
        return None

    def _good(self, stem: str, content: bytes) -> bytes:
        self._bad.pop(stem, None)
        return content

    def _tell(self, stem: str, name: str, reason: str) -> None:
        self._bad[stem] = f"{self.place.join(name)}: not used: {reason}"


def encode(content: bytes) -> bytes:
    """The file of a document. Equal contents give equal files."""
    sink = pa.BufferOutputStream()
    plain = SCHEMA.remove_metadata()
    with pq.ParquetWriter(sink, plain, store_schema=False) as writer:
        writer.add_key_value_metadata(
            {
                VERSION_KEY.decode(): str(SCHEMA_VERSION),
                CONTENT_KEY.decode(): base64.b64encode(zlib.compress(content)).decode(),
                _DIGEST_KEY.decode(): hashlib.sha256(content).hexdigest(),
            }
        )
    return bytes(sink.getvalue())


def decode(file: bytes) -> bytes:
    """The content of a document's file.

    Raises:
        NotDocument: it is damaged, or no document.
    """
    try:
        metadata = pq.read_metadata(pa.BufferReader(file)).metadata or {}
        digest = metadata[_DIGEST_KEY].decode()
        content = zlib.decompress(base64.b64decode(metadata[CONTENT_KEY], validate=True))
    except KeyError:
        raise NotDocument("it is no document of a store") from None
    except (pa.ArrowException, OSError, ValueError, binascii.Error, zlib.error) as error:
        raise NotDocument(f"it cannot be read ({' '.join(str(error).split())[:200]})") from None
    if hashlib.sha256(content).hexdigest() != digest:
        raise NotDocument("its content is not what was written")
    return content
