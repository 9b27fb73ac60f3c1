"""The XIDs of the alerts as the rules and documents have them: a pattern and a table."""

from exporter.model.alerts import XIDS, codes


def pattern(alert: str) -> str:
    """The XIDs of an alert as a regular expression, as the rules have it."""
    return "|".join(map(str, codes(alert)))


def table() -> str:
    """The XIDs as Markdown."""
    rows = (
        f"| {', '.join(map(str, xid.codes))} | {xid.what} | {xid.action} "
        f"| {xid.alert or 'none'} |\n"
        for xid in XIDS
    )
    return "| XID | what | NVIDIA's immediate action | alert |\n|---|---|---|---|\n" + "".join(rows)
