"""A certificate authority and what it signs, made by the openssl program."""

import ssl
import subprocess
from pathlib import Path
from typing import NamedTuple

_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]


class Pair(NamedTuple):
    """The files of a certificate and its key."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates; ``certificate`` is its own."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self.certificate, self._key = _make(folder, name, [])

    def sign(self, name: str, *names: str) -> Pair:
        """A certificate for these alternative names, such as ``IP:127.0.0.1``."""
        signer = ["-CA", str(self.certificate), "-CAkey", str(self._key)]
        # openssl req -x509 marks what it makes as an authority, unless told otherwise
        leaf = ["-addext", "basicConstraints=critical,CA:FALSE"]
        sans = ["-addext", f"subjectAltName={','.join(names)}"] if names else []
        return _make(self._folder, name, [*signer, *leaf, *sans])

    def client(self, pair: Pair | None = None) -> ssl.SSLContext:
        """A client that trusts this authority and shows a certificate, if it has one."""
        context = ssl.create_default_context(cafile=self.certificate)
        if pair is not None:
            context.load_cert_chain(*pair)
        return context


def _make(folder: Path, name: str, options: list[str]) -> Pair:
    pair = Pair(folder / f"{name}.crt", folder / f"{name}.key")
    files = ["-out", str(pair.certificate), "-keyout", str(pair.key)]
    command = ["openssl", "req", "-x509", *_KEY, "-subj", f"/CN={name}", *options, *files]
    subprocess.run(command, check=True, capture_output=True)
    return pair
