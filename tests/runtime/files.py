"""Module files taken apart and put together again."""

from __future__ import annotations

import hashlib
import json
import zipfile


def rewrite(path, change=None, replace=None, digests=False):
    """Write a module file again, with a changed manifest or a replaced member.

    Args:
        change: a function of the manifest, which it changes.
        replace: new members by name.
        digests: whether the manifest gets the checksums of the new members.
    """
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members["manifest.json"])
    members.update(replace or {})
    if digests:
        for name in replace:
            manifest["sha256"][name] = hashlib.sha256(members[name]).hexdigest()
    if change:
        change(manifest)
    if change or digests:
        members["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
