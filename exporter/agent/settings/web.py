"""Settings of the web server."""

from dataclasses import dataclass

from exporter.inputs.values import ADDRESS, SWITCH, TEXT, URL_PATH, Address, count, many, setting


@dataclass(frozen=True, kw_only=True)
class WebSettings:
    """The web server."""

    __slots__ = ()

    web_listen_address: tuple[Address, ...] = setting(
        "web.listen-address", many(ADDRESS), ":10045", "Addresses to listen on."
    )
    web_telemetry_path: str = setting(
        "web.telemetry-path", URL_PATH, "/metrics", "Path of the metrics."
    )
    web_max_requests: int = setting(
        "web.max-requests",
        count(1, 10_000),
        # As node_exporter's flag of this name.
        "40",
        "Most requests that are served at once; others are answered with 503.",
        "Health checks do not count.",
    )
    web_config_file: str = setting(
        "web.config.file",
        TEXT,
        "",
        "File with TLS, client certificates, users, headers and a rate limit, in "
        "exporter-toolkit's format (docs/security.md).",
        "It and its certificates are read again when they change.",
    )
    web_open_page: bool = setting(
        "web.open-page",
        SWITCH,
        "false",
        "Serve the live page and its JSON to all clients.",
        "Otherwise to users of --web.config.file, and on loopback addresses and Unix sockets.",
    )
    web_metrics_only: bool = setting(
        "web.metrics-only",
        SWITCH,
        "false",
        "Serve neither the live page nor its JSON.",
        "For a proxy in front that judges by path.",
    )
    web_kubernetes_access: bool = setting(
        "web.kubernetes-access",
        SWITCH,
        "false",
        "Let Kubernetes decide who may scrape and who may see the page and its JSON.",
        "Clients show a token (docs/security.md). It excludes --web.open-page, and users in "
        "--web.config.file.",
    )
    web_kubernetes_audiences: tuple[str, ...] = setting(
        "web.kubernetes-audiences",
        many(TEXT),
        "",
        "Audiences, one of which a token must be made for; if not set, the API server's.",
        "A token for an audience of its own opens nothing else in the cluster.",
    )
    web_enable_lifecycle: bool = setting(
        "web.enable-lifecycle",
        SWITCH,
        "false",
        "Read the settings file again on POST /-/reload.",
        "Every client that reaches the listener can use it.",
    )
