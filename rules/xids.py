"""The XIDs of the alerts as the rules and documents have them: a pattern and a table."""

from exporter.model.alerts import XIDS, codes


def pattern(alert: str) -> str:
    """The XIDs of an alert as a regular expression, as the rules have it."""
    return "|".join(map(str, codes(alert)))


def table() -> str:
    """The XIDs as Markdown, by their alerts."""
    head = "| XID | what | NVIDIA's immediate action |\n|---|---|---|\n"
    rows: dict[str, str] = {}
    for xid in XIDS:
        row = f"| {', '.join(map(str, xid.codes))} | {xid.what} | {xid.action} |\n"
        rows[xid.alert or "No alert"] = rows.get(xid.alert or "No alert", "") + row
    return "\n".join(f"{alert}:\n\n{head}{own}" for alert, own in rows.items())
