"""A real Prometheus comes in with a client certificate and a password, and takes a selection."""

from pathlib import Path

import bcrypt
import pytest

from tests.agent.web.certificates import Authority
from tests.e2e.programs import Exporter, Prometheus


@pytest.mark.program("prometheus")
def test_prometheus_is_let_in_with_certificate_and_password(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    server, client = authority.sign("server", "IP:127.0.0.1"), authority.sign("client", "DNS:prom")
    file = tmp_path / "web.yml"
    file.write_text(
        f"tls_server_config:\n  cert_file: {server.certificate.name}\n"
        f"  key_file: {server.key.name}\n  client_ca_file: {authority.certificate.name}\n"
        "  client_auth_type: RequireAndVerifyClientCert\n  client_allowed_sans: [prom]\n"
        f"basic_auth_users:\n  prom: {bcrypt.hashpw(b'right', bcrypt.gensalt(4)).decode()}\n"
    )
    job = (
        f"    scheme: https\n    tls_config: {{ca_file: {authority.certificate}, "
        f"cert_file: {client.certificate}, key_file: {client.key}}}\n"
        "    basic_auth: {username: prom, password: right}\n"
        "    params: {'collect[]': [device]}\n"
    )
    with (
        Exporter("--simulate=single", f"--web.config.file={file}") as exporter,
        Prometheus(exporter.url, tmp_path, "1s", job) as prometheus,
    ):
        names = prometheus.values('count by (__name__) ({__name__=~"mgpu_.*"})', ("__name__",))

    assert {name.split("_")[1] for (name,) in names} == {"device"}
