"""Signed module files: loaded only with the signature of the right key, where one is demanded."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tests.runtime.files import rewrite
from tilework import load_module
from tilework.errors import ModuleError

pytest.importorskip("cryptography")

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519


def pem(key):
    if hasattr(key, "private_bytes"):
        return key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    return key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


@pytest.fixture(scope="module")
def private():
    return ed25519.Ed25519PrivateKey.generate()


@pytest.fixture(scope="module")
def public(private):
    return pem(private.public_key())


@pytest.fixture
def signed(mlp_module, tmp_path, private):
    path = tmp_path / "mlp.tw"
    mlp_module.save(path, private_key=pem(private))
    return path


def test_a_signed_module(signed, public, mlp_module, image, tmp_path):
    (tmp_path / "public.pem").write_bytes(public)
    for key in (public, tmp_path / "public.pem", str(tmp_path / "public.pem")):
        loaded = load_module(signed, public_key=key)
        assert np.array_equal(loaded.run(image)[0], mlp_module.run(image)[0])
    assert load_module(signed).name == mlp_module.name
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mlp.tw", "mlp.tw.sig", "public.pem"]


def test_keys_of_32_bytes(mlp_module, tmp_path, private):
    mlp_module.save(tmp_path / "a.tw", private_key=private.private_bytes_raw())
    signed = load_module(tmp_path / "a.tw", public_key=private.public_key().public_bytes_raw())
    assert signed.image.steps == mlp_module.image.steps


def test_no_signature(signed, public):
    (signed.parent / "mlp.tw.sig").unlink()
    with pytest.raises(ModuleError, match=r"is not signed.*mlp.tw.sig.*private_key"):
        load_module(signed, public_key=public)


@pytest.mark.parametrize("text", [b"", b"%", b"AAAA", bytes(100), "\u00e4".encode()])
def test_an_odd_signature(signed, public, text):
    (signed.parent / "mlp.tw.sig").write_bytes(text)
    with pytest.raises(ModuleError, match="is no signature of"):
        load_module(signed, public_key=public)


def test_another_key(signed):
    other = pem(ed25519.Ed25519PrivateKey.generate().public_key())
    with pytest.raises(ModuleError, match=r"is no signature of .* by the given key"):
        load_module(signed, public_key=other)


def test_any_change_is_seen(signed, public):
    rewrite(signed, lambda m: m["image"].update(num_threads=1))
    with pytest.raises(ModuleError, match="is no signature of"):
        load_module(signed, public_key=public)


def test_changed_code_is_seen(signed, public):
    rewrite(signed, replace={"code/run.o": b"evil"})
    with pytest.raises(ModuleError, match="wrong checksum"):
        load_module(signed, public_key=public)
    rewrite(signed, replace={"code/run.o": b"evil"}, digests=True)
    with pytest.raises(ModuleError, match="is no signature of"):
        load_module(signed, public_key=public)


@pytest.mark.parametrize("key", [b"", b"x" * 31, "none.pem", b"-----BEGIN PUBLIC KEY-----"])
def test_odd_keys(signed, key, mlp_module):
    with pytest.raises(ModuleError, match=r"is no public key|cannot read the public key"):
        load_module(signed, public_key=key)
    with pytest.raises(ModuleError, match=r"is no private key|cannot read the private key"):
        mlp_module.save(signed, private_key=key)


def test_keys_of_another_kind(signed, mlp_module):
    other = ec.generate_private_key(ec.SECP256R1())
    with pytest.raises(ModuleError, match="public key is no Ed25519 key"):
        load_module(signed, public_key=pem(other.public_key()))
    with pytest.raises(ModuleError, match="private key is no Ed25519 key"):
        mlp_module.save(signed, private_key=pem(other))


def test_without_the_package(signed, public, monkeypatch, mlp_module):
    for name in ("cryptography", "cryptography.hazmat.primitives"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleError, match=r"pip install cryptography"):
        load_module(signed, public_key=public)
    assert load_module(signed).name == mlp_module.name
