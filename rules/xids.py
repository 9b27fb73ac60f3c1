"""The XIDs of the alerts as the rules and documents have them: a pattern and a table."""

from exporter.model.alerts import XIDS, codes


def pattern(alert: str) -> str:
    """The XIDs of an alert as a regular expression, as the rules have it."""
    return "|".join(map(str, codes(alert)))


def table() -> str:
    """The XIDs as Markdown, by alert and by what NVIDIA says to do."""
    rows: dict[tuple[str, str], list[str]] = {}
    for xid in XIDS:
        one = f"**{', '.join(map(str, xid.codes))}** {xid.what}"
        rows.setdefault((xid.alert or "none", xid.action), []).append(one)
    head = "| alert | NVIDIA's immediate action | XIDs |\n|---|---|---|\n"
    return head + "".join(
        f"| {alert} | {action} | {'; '.join(xids)} |\n" for (alert, action), xids in rows.items()
    )
