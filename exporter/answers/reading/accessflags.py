"""Flags and variables for reading another machine's figures.

Secrets come from files or variables, because every user of the machine can read command lines.
"""

import os
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Collection, Mapping

from exporter.answers.reading.feeds.feed import Feed, OwnNode
from exporter.answers.reading.feeds.prometheus import LESS, PrometheusFeed
from exporter.answers.reading.feeds.remote import RemoteFeed
from exporter.answers.reading.headers import Headers, headers_of
from exporter.answers.reading.jsonclient import Credentials, HttpClient
from exporter.answers.reading.queryapi import Prometheus
from exporter.httpclient import TIMEOUT_S, NoAnswerError
from exporter.inputs.files import opened
from exporter.shown.printable import clean

URL, PROMETHEUS = "MGPU_REMOTE_URL", "MGPU_REMOTE_PROMETHEUS"
PASSWORD, TOKEN = "MGPU_REMOTE_PASSWORD", "MGPU_REMOTE_TOKEN"
HEADER = "MGPU_REMOTE_HEADER"
LONGEST_SECRET = 64 * 1024
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")

FLAGS = {  # each takes one text: name → variable, help
    "url": (URL, "an exporter on another machine, such as http://node:10045"),
    "user": ("MGPU_REMOTE_USER", "whom to log in as"),
    "password-file": ("MGPU_REMOTE_PASSWORD_FILE", f"file with the password [or ${PASSWORD}]"),
    "token-file": ("MGPU_REMOTE_TOKEN_FILE", f"file with a bearer token [or ${TOKEN}]"),
    "header-file": (
        "MGPU_REMOTE_HEADER_FILE",
        "file with headers to send, one in each line, such as X-Scope-OrgID: team",
    ),
    "ca-file": ("MGPU_REMOTE_CA_FILE", "authorities to trust instead of this machine's"),
    "cert-file": ("MGPU_REMOTE_CERT_FILE", "certificate to show"),
    "key-file": ("MGPU_REMOTE_KEY_FILE", "its key, if that is in another file"),
}
PROMETHEUS_FLAGS = {
    "prometheus": (
        PROMETHEUS,
        "a Prometheus that scrapes exporters, such as http://prometheus:9090",
    ),
    "namespace": ("MGPU_REMOTE_NAMESPACE", "this namespace's pods only"),
    "job": (
        "MGPU_REMOTE_JOB",
        "the jobs that scrape exporters, a pattern of the label job: no other is trusted",
    ),
}
VARIABLES = (*(v for v, _ in (FLAGS | PROMETHEUS_FLAGS).values()), PASSWORD, TOKEN, HEADER)
"""Every environment variable that is read here."""


def add_arguments(
    parser: ArgumentParser, *, prometheus: bool = False, without: Collection[str] = ()
) -> None:
    """Adds the flags of a command that can read another machine, but those that it cannot use."""
    group = parser.add_argument_group("another machine")
    # The arguments have these names all the same: who reads them need not know the command.
    parser.set_defaults(**dict.fromkeys(without))
    for name, (variable, about) in (FLAGS | (PROMETHEUS_FLAGS if prometheus else {})).items():
        if name in without:
            continue
        # The plugin's users write -n, as they do to kubectl.
        names = (f"--{name}", "-n") if name == "namespace" else (f"--{name}",)
        group.add_argument(*names, metavar="VALUE", help=f"{about} [${variable}]")
    group.add_argument(
        "--header",
        metavar="NAME: VALUE",
        action="append",
        help="header to send, such as 'X-Scope-OrgID: team'; may be repeated; none that is secret "
        f"[${HEADER}]",
    )
    if prometheus:
        group.add_argument(
            "--target",
            metavar="LABEL=PATTERN",
            action="append",
            help="which targets of the Prometheus are meant, by any label that it gives them, such "
            "as cluster=west; may be repeated",
        )


def far_feed(arguments: Namespace, environ: Mapping[str, str] = os.environ) -> Feed | None:
    """The feed that flags or variables name; None stands for this node.

    Raises:
        NoAnswerError: flags contradict each other, or a file cannot be read.

    """
    # A flag wins over a variable, also over that of the other one.
    typed = [getattr(arguments, name, None) or "" for name in ("url", "prometheus")]
    found = typed if any(typed) else [_given(n, arguments, environ) for n in ("url", "prometheus")]
    if all(found):
        both = "--url and --prometheus" if all(typed) else f"{URL} and {PROMETHEUS}"
        raise NoAnswerError(f"{both} are both given; give one of the two")
    url, prometheus = found
    if prometheus:
        namespace = _given("namespace", arguments, environ)
        prometheus = far_prometheus(arguments, environ, namespace=namespace, less=LESS)
        return PrometheusFeed(prometheus, namespace)
    return RemoteFeed(HttpClient(url, _credentials(arguments, environ))) if url else None


def here(node: OwnNode | None) -> OwnNode:
    """The node that a command runs on, where no other machine was named.

    Raises:
        NoAnswerError: this program measures no node.

    """
    if node is None:
        raise NoAnswerError("name an exporter (--url) or a Prometheus (--prometheus)")
    return node


def far_prometheus(
    arguments: Namespace,
    environ: Mapping[str, str] = os.environ,
    *,
    namespace: str = "",
    all_stores: bool = False,
    timeout_s: float = TIMEOUT_S,
    less: str = "",
) -> Prometheus:
    """The Prometheus that flags or variables name; other arguments are as it has them.

    Raises:
        NoAnswerError: none is named, it is no address, or a file cannot be read.

    """
    address = _given("prometheus", arguments, environ)
    if not address:
        raise NoAnswerError(
            "name a Prometheus that scrapes the exporters: --prometheus http://prometheus:9090, "
            f"or {PROMETHEUS}"
        )
    # ``kubectl mgpu`` found it in the cluster, and gave it a name. A credential is only for the
    # address that its owner named, so it is not shown to what was found.
    name = getattr(arguments, "prometheus_name", "")
    if name:
        shown = Credentials(headers=far_headers(arguments))
    else:
        shown = _credentials(arguments, environ)
    http = HttpClient(address, shown, name=name, timeout_s=timeout_s)
    job = _given("job", arguments, environ)
    targets = {"job": job} if job else {}
    for each in getattr(arguments, "target", None) or ():
        label, equals, pattern = each.partition("=")
        if not equals or not _LABEL.fullmatch(label):
            raise NoAnswerError(f"--target: {clean(each)}: give LABEL=PATTERN, as cluster=west")
        targets[label] = pattern
    return Prometheus(http, namespace, all_stores=all_stores, targets=targets, less=less)


def far_namespace(arguments: Namespace, environ: Mapping[str, str] = os.environ) -> str:
    """The namespace that flags or variables name; "" stands for all."""
    return _given("namespace", arguments, environ)


def _given(name: str, arguments: Namespace, environ: Mapping[str, str]) -> str:
    """What a flag says, or else its variable, which counts only for a command with that flag."""
    flag, variable = name.replace("-", "_"), (FLAGS | PROMETHEUS_FLAGS)[name][0]
    given = getattr(arguments, flag, None)
    if given is not None or not hasattr(arguments, flag):
        variable, found = f"--{name}", str(given or "")
    else:
        found = environ.get(variable, "")
    if "file" not in name and not _is_text(found):  # the name of a file may be any bytes
        raise NoAnswerError(f"{variable}: not UTF-8")
    return found


def far_headers(arguments: Namespace, environ: Mapping[str, str] | None = None) -> Headers:
    """The headers to send. Those of flags go to whatever is asked; without ``environ``, no others.

    Raises:
        NoAnswerError: one cannot be sent, or the file cannot be read.

    """
    environ = {} if environ is None else environ
    typed = getattr(arguments, "header", None) or ()
    path = _given("header-file", arguments, environ)
    kept = [*(() if typed else environ.get(HEADER, "").split("\n"))]
    kept += _contents("header-file", path).split("\n") if path else ()
    try:
        return headers_of(typed, kept)
    except ValueError as error:
        where = "--header" if typed else HEADER if environ.get(HEADER) else f"--header-file: {path}"
        raise NoAnswerError(f"{where}: {error}") from None


def _credentials(arguments: Namespace, environ: Mapping[str, str]) -> Credentials:
    return Credentials(
        headers=far_headers(arguments, environ),
        user=_given("user", arguments, environ),
        password=secret_of("password-file", arguments, environ),
        token=secret_of("token-file", arguments, environ),
        ca_file=_given("ca-file", arguments, environ),
        cert_file=_given("cert-file", arguments, environ),
        key_file=_given("key-file", arguments, environ),
    )


def secret_of(name: str, arguments: Namespace, environ: Mapping[str, str] = os.environ) -> str:
    """The token or password that a flag or a variable names; "" if there is none."""
    path = _given(name, arguments, environ)
    if path:
        # A file mostly ends with a line break, which is no part of a token and may stand in no
        # header.
        return _contents(name, path).strip()
    variable = TOKEN if name == "token-file" else PASSWORD
    secret = environ.get(variable, "")
    if not _is_text(secret):
        raise NoAnswerError(f"{variable}: not UTF-8")
    return secret


def _contents(name: str, path: str) -> str:
    """The text of a file that a flag or a variable names."""
    try:
        with opened(path) as file:
            # The path may be that of a device, which has no end.
            return file.read(LONGEST_SECRET).decode()
    except OSError as error:
        raise NoAnswerError(f"--{name}: {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise NoAnswerError(f"--{name}: {path}: not UTF-8") from None


def _is_text(value: str) -> bool:
    """Whether it is UTF-8: Python has other bytes of variables and arguments as half characters."""
    return not any("\ud800" <= character <= "\udfff" for character in value)
