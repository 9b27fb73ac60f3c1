"""The XIDs of the alerts as rules and documents have them: a pattern, a description, a table."""

import re
import textwrap

from exporter.model.alerts import HARDWARE, PROGRAM, WATCH, XIDS, codes

_HEAD = """\
# XIDs

By NVIDIA's XID catalogue (docs.nvidia.com/deploy/xid-errors), Ampere to Blackwell. MgpuXidError is
for all others: a program's own. The chart has the lists as `prometheusRule.xids`.

"""


def pattern(alert: str) -> str:
    """The XIDs of an alert as a regular expression, as the rules have it."""
    return "|".join(map(str, codes(alert)))


def described(rules: str) -> str:
    """The rules, where each alert of XIDs says what its XID means and what to do."""
    for alert in (HARDWARE, WATCH, PROGRAM):
        found = re.search(
            rf"- alert: {alert}\n(?:.*\n)*? {{10}}summary: .*\n"
            r"( {10}description: >-\n(?: {12}.*\n)*)",
            rules,
        )
        if found is None:
            raise ValueError(f"{alert} has no description to write")
        rules = rules[: found.start(1)] + _description(alert) + rules[found.end(1) :]
    return rules


def _description(alert: str) -> str:
    """The annotation in YAML. Templates of Prometheus have no tables: it is a chain of ``if``."""
    cases = []
    for xid in XIDS:
        if xid.alert == alert:
            found = " ".join(f'"{code}"' for code in xid.codes)
            cases.append(f"if eq $labels.xid {found} }}}}: {xid.what}. To do: {xid.action}")
    text = (
        "XID {{ $labels.xid }} on GPU {{ $labels.gpu }} ({{ $labels.uuid }}) of "
        "{{ $labels.instance }} {{ $value | humanizeDuration }} ago"
        f"{{{{ {'{{ else '.join(cases)}{{{{ end }}}}."
    )
    lines = textwrap.wrap(text, 88, break_on_hyphens=False, break_long_words=False)
    return "          description: >-\n" + "".join(f"            {line}\n" for line in lines)


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
