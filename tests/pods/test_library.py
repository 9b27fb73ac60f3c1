"""The kubernetes package without what is not used of it: the same credentials, and no more."""

import base64
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.pods.apiserver import write_context
from tests.pods.authority import make_certificate
from tests.pods.issuer import EXPIRED, GIVEN, Issuer, id_token

PROGRAM = """
import json, sys
from pathlib import Path
way, folder, *users = sys.argv[1:]
if way == "whole":
    import kubernetes
from exporter.sources.pods.client import connect, from_kubeconfig, from_service_account

environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
account = from_service_account(environ, Path(folder))
found = {}
for user, load in {"account": account, **{user: from_kubeconfig(user) for user in users}}.items():
    try:
        client = connect(load)
    except Exception as error:
        found[Path(user).name] = str(error)
    else:
        told, pool = client._configuration, client._pool.connection_pool_kw
        cert = pool["cert_file"] and Path(pool["cert_file"]).read_text()
        found[Path(user).name] = [told.host, client._headers(), cert, told.verify_ssl]
print(json.dumps([found, sorted(sys.modules)]))
"""

UNUSED = (
    "kubernetes.client.api_client",  # pydantic; nothing but an OpenID Connect login makes one
    "kubernetes.client.models",
    "kubernetes.dynamic",
    "kubernetes.stream",
    "kubernetes.watch",
    "oauthlib.oauth2.rfc6749",
    "pydantic",
    "requests",
    "websocket",
)


def found(way: str, folder: Path, *users: Path) -> tuple[dict[str, Any], set[str]]:
    """What connections are made with, by user; and the modules that were imported for it."""
    command = [sys.executable, "-c", PROGRAM, way, str(folder), *map(str, users)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result, modules = json.loads(done.stdout)
    return result, set(modules)


@pytest.fixture
def account(tmp_path: Path) -> Path:
    """A ServiceAccount's directory."""
    certificate, key = make_certificate(tmp_path, "authority")
    (tmp_path / "token").write_text("of the account")
    (tmp_path / "ca.crt").write_bytes(certificate.read_bytes())
    (tmp_path / "key").write_bytes(key.read_bytes())
    return tmp_path


def kubeconfig(path: Path, user: Mapping[str, object]) -> Path:
    """One whose server nobody asks."""
    cluster = {"server": "https://10.0.0.2", "insecure-skip-tls-verify": True}
    return write_context(path, cluster, user)


def encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def plugin(path: Path) -> Mapping[str, object]:
    """A credential plugin."""
    version = "client.authentication.k8s.io/v1"
    status = {"apiVersion": version, "kind": "ExecCredential", "status": {"token": "of a plugin"}}
    path.write_text(f"#!/bin/sh\necho '{json.dumps(status)}'\n")
    path.chmod(0o755)
    return {"exec": {"apiVersion": version, "command": str(path), "interactiveMode": "Never"}}


def login(issuer: str, authority: Path, expires: int) -> Mapping[str, object]:
    """A user who logged in by OpenID Connect, whose token ends then."""
    config = {
        "client-id": "us",
        "client-secret": "secret",
        "id-token": id_token(expires, "old"),
        "idp-certificate-authority": str(authority),
        "idp-issuer-url": issuer,
        "refresh-token": "first",
    }
    return {"auth-provider": {"name": "oidc", "config": config}}


@pytest.mark.slow
@pytest.mark.program("openssl")
def test_credentials_are_the_same_with_what_is_needed_of_the_package_as_with_all_of_it(
    account: Path,
) -> None:
    certificate = {
        "client-certificate-data": encoded(account / "ca.crt"),
        "client-key-data": encoded(account / "key"),
    }
    users = {
        "token": {"token": "of a file"},
        "token_file": {"tokenFile": str(account / "token")},
        "password": {"username": "me", "password": "mine"},
        "certificate": certificate,
        "plugin": plugin(account / "plugin.sh"),
        "no_plugin": {"exec": {"apiVersion": "v1", "command": str(account / "none")}},
        "login": login("https://10.0.0.3", account / "ca.crt", GIVEN),
        "broken": {"exec": []},
    }
    files = [kubeconfig(account / name, user) for name, user in users.items()]
    whole, _ = found("whole", account, *files)
    spared, modules = found("spared", account, *files)
    assert spared == whole
    assert whole["plugin"][1]["authorization"] == "Bearer of a plugin"
    assert not modules & set(UNUSED)


@pytest.mark.slow
@pytest.mark.program("openssl")
@pytest.mark.parametrize("way", ["whole", "spared"])
def test_a_login_that_ran_out_is_renewed(way: str, account: Path) -> None:
    with Issuer(account / "ca.crt", account / "key") as issuer:
        file = kubeconfig(account / "login", login(issuer.url, account / "ca.crt", EXPIRED))
        result, _ = found(way, account, file)
    assert result["login"][1]["authorization"] == f"Bearer {id_token(GIVEN)}"
    assert issuer.given == 1
