"""The cluster's certificate authorities and what they sign, by the openssl command."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

_CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True, slots=True)
class Certificate:
    """Files of a certificate and its key, in PEM."""

    crt: Path
    key: Path


class Authority:
    """Signs certificates; ``own`` is its own one."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.own = Certificate(folder / f"{name}.crt", folder / f"{name}.key")
        _openssl(
            *("req", "-x509", *_CURVE, "-subj", f"/CN={name}", "-days", "30"),
            *("-addext", "keyUsage=critical,keyCertSign"),  # Python 3.13 wants it
            *("-keyout", str(self.own.key), "-out", str(self.own.crt)),
        )

    def sign(self, name: str, organization: str = "", hosts: tuple[str, ...] = ()) -> Certificate:
        """A certificate for a client (its user name, its group) and a server (its hosts)."""
        stem = name.replace(":", "-")
        made = Certificate(self._folder / f"{stem}.crt", self._folder / f"{stem}.key")
        subject = (f"/O={organization}" if organization else "") + f"/CN={name}"
        names = [f"IP:{host}" if host[0].isdigit() else f"DNS:{host}" for host in hosts]
        extensions = ["extendedKeyUsage=clientAuth,serverAuth"]
        if names:
            extensions.append(f"subjectAltName={','.join(names)}")
        _openssl(
            *("req", "-x509", *_CURVE, "-subj", subject, "-days", "30"),
            *("-CA", str(self.own.crt), "-CAkey", str(self.own.key)),
            *(part for extension in extensions for part in ("-addext", extension)),
            *("-addext", "basicConstraints=critical,CA:FALSE"),
            *("-keyout", str(made.key), "-out", str(made.crt)),
        )
        return made


def signing_key(folder: Path) -> Certificate:
    """A key pair to sign tokens with; ``crt`` is the public key."""
    pair = Certificate(folder / "tokens.pub", folder / "tokens.key")
    _openssl("genrsa", "-out", str(pair.key), "2048")
    _openssl("rsa", "-in", str(pair.key), "-pubout", "-out", str(pair.crt))
    return pair


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
