"""The XIDs of the alerts as the rules and documents have them: a pattern and a table."""

from exporter.model.alerts import XIDS, codes

_HEAD = """\
# XIDs

By NVIDIA's XID catalogue (docs.nvidia.com/deploy/xid-errors), Ampere to Blackwell. MgpuXidError is
for all others: a program's own. The chart has the lists as `prometheusRule.xids`.

"""


def pattern(alert: str) -> str:
    """The XIDs of an alert as a regular expression, as the rules have it."""
    return "|".join(map(str, codes(alert)))


def page() -> str:
    """The XIDs as a page in Markdown, by alert and by what NVIDIA says to do."""
    rows: dict[tuple[str, str], list[str]] = {}
    for xid in XIDS:
        one = f"**{', '.join(map(str, xid.codes))}** {xid.what}"
        rows.setdefault((xid.alert or "none", xid.action), []).append(one)
    head = "| alert | NVIDIA's immediate action | XIDs |\n|---|---|---|\n"
    table = "".join(
        f"| {alert} | {action} | {'; '.join(xids)} |\n" for (alert, action), xids in rows.items()
    )
    return _HEAD + head + table
