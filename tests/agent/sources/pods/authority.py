"""A certificate authority and a server certificate for loopback, made by the openssl program."""

import subprocess
from pathlib import Path


def expired(folder: Path, certificate: Path, key: Path) -> Path:
    """The same certificate, of a time that is over."""
    request, old = folder / "again.csr", folder / "expired.crt"
    again = ["openssl", "x509", "-x509toreq", "-in", str(certificate), "-signkey", str(key)]
    subprocess.run([*again, "-out", str(request)], check=True, capture_output=True)
    names = folder / "names"
    names.write_text("subjectAltName=IP:127.0.0.1\n")
    sign = ["openssl", "x509", "-req", "-in", str(request), "-signkey", str(key), "-days", "-1"]
    files = ["-extfile", str(names), "-out", str(old)]
    subprocess.run([*sign, *files], check=True, capture_output=True)
    return old


def make_certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1, its own authority; (certificate, key) files."""
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    subject = ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    subprocess.run(
        ["openssl", "req", "-x509", *kind, *subject, *files], check=True, capture_output=True
    )
    return certificate, key
