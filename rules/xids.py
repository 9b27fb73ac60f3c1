"""The XIDs of the alerts as rules and documents have them: a pattern, a description, a table."""

import re
import textwrap

from exporter.model.alerts import (
    HARDWARE,
    LAST_RESORT,
    LOST,
    PROGRAM,
    STILL_LOST,
    WATCH,
    XIDS,
    codes,
)

_HEAD = """\
# XIDs

By NVIDIA's XID catalogue (docs.nvidia.com/deploy/xid-errors), Ampere to Blackwell. MgpuXidError is
for all others: a program's own. The chart has the lists as `prometheusRule.xids`.

"""


_LOST = "MgpuGpuLost"
_NAMES = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel"}


def pattern(alert: str) -> str:
    """The XIDs of an alert as a regular expression, as the rules have it."""
    return "|".join(map(str, codes(alert)))


_LAST_XID = f'topk(1, mgpu_device_xid_last_timestamp_seconds{{GPU,xid=~"{pattern(HARDWARE)}"}})'
_VENDOR = "mgpu_device_info{GPU}"
# Who holds something of it, or has what cannot be measured there. No pattern of names: some
# stores look through all series for one.
_ON_CARD = " or ".join(
    f"max_over_time(mgpu_{owner}_{family}{{CARD}}[1h])"
    for owner in ("container", "group")
    for family in ("processes", "unmeasured")
)
# The alert of a card stands for its instances, too: who is on one has the number of the card and
# the UUID of the instance.
_ON_IT = (
    f"({_ON_CARD}) and on (cluster, job, instance, uuid) "
    "(mgpu_device_info{GPU} or mgpu_device_info{PARENT})"
)
_WHO = (
    "topk(3, count by (namespace, exported_namespace, pod, exported_pod, kind, group) "
    f"(({_ON_IT}) > 0))"
)


def described(rules: str) -> str:
    """The rules, where each alert of XIDs says what its XID means and what to do."""
    for alert in (HARDWARE, WATCH, PROGRAM, _LOST):
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
    text = (
        _lost()
        if alert == _LOST
        else (
            "XID {{ $labels.xid }} on GPU {{ $labels.gpu }} ({{ $labels.uuid }}) of "
            "{{ $labels.instance }} {{ $value | humanizeDuration }} ago"
            f"{_meaning(alert, '$labels.xid')}."
        )
    )
    lines = textwrap.wrap(text, 88, break_on_hyphens=False, break_long_words=False)
    return "          description: >-\n" + "".join(f"            {line}\n" for line in lines)


def _meaning(alert: str, xid: str) -> str:
    """What each XID of an alert means and what to do, by the variable that has its number."""
    cases = []
    for one in XIDS:
        if one.alert == alert:
            found = " ".join(f'"{code}"' for code in one.codes)
            cases.append(f"if eq {xid} {found} }}}}: {one.what}. To do: {one.action}")
    return f"{{{{ {'{{ else '.join(cases)}{{{{ end }}}}"


def _lost() -> str:
    """Of a lost GPU: who was on it, its last hardware XID, and what to do by that or by vendor."""
    return (
        "GPU {{ $labels.gpu }} ({{ $labels.uuid }}) of {{ $labels.instance }} is lost."
        f'{_asked(_LAST_XID)}{{{{ with label "xid" (first .) }}}} XID {{{{ . }}}}'
        f"{_meaning(HARDWARE, '.')}.{{{{ end }}}}"
        f'{{{{ else }}}}{_asked(_VENDOR)}{{{{ with label "vendor" (first .) }}}} To do: {{{{ '
        + "{{ else ".join(f'if eq . "{vendor}" }}}}{what}' for vendor, what in LOST.items())
        + f"{{{{ end }}}}; {STILL_LOST}.{{{{ end }}}}{{{{ end }}}}{{{{ end }}}}"
        f"{_asked(_WHO)} On it: "
        "{{ range $number, $it := . }}{{ if $number }}, {{ end }}"
        '{{ with label "group" $it }}{{ label "kind" $it }}/{{ . }}{{ else }}'
        '{{ or (label "exported_namespace" $it) (label "namespace" $it) }}/'
        '{{ or (label "exported_pod" $it) (label "pod" $it) }}{{ end }}{{ end }}.{{ end }}'
        " Whatever ran on it has failed."
    )


def _asked(query: str) -> str:
    """The begin of a block about what a query of the alert's GPU finds, if it finds anything."""
    for word, own in {"GPU": "uuid", "PARENT": "parent_uuid", "CARD": "gpu"}.items():
        number = 5 if own == "gpu" else 4
        target = 'cluster="%[1]s",job="%[2]s",instance="%[3]s"'
        query = query.replace(f"{{{word}", f'{{{target},{own}="%[{number}]s"')
    labels = " ".join(f"$labels.{of}" for of in ("cluster", "job", "instance", "uuid", "gpu"))
    return f"{{{{ with printf `{query}` {labels} | query }}}}"


def ordered(runbook: str) -> str:
    """A runbook with the order of remedies for a lost GPU in the place of its numbered list."""
    by_vendor = "; ".join(f"{_NAMES[vendor]}: {what}" for vendor, what in LOST.items())
    steps = (
        "What the driver asks for: [MgpuGpuRecoveryAction](MgpuGpuRecoveryAction.md).",
        "What its last XID asks for: [all XIDs](xids.md).",
        f"Without either, by vendor: {by_vendor}; {STILL_LOST}.",
        f"After a restart: {LAST_RESORT}.",
    )
    text = "".join(f"{number}. {step}\n" for number, step in enumerate(steps, 1))
    return re.sub(r"(?:^\d\. .*\n)+", lambda _: text, runbook, count=1, flags=re.MULTILINE)


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
