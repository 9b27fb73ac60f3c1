"""The bounds on what tenants fill: one table, of which SECURITY.md has the page.

A bound that stands nowhere here is of something that no tenant has in common with others; what that
is says ``ELSEWHERE`` by module. ``tests/bounds`` finds a bound that has no place.
"""

from importlib import import_module
from typing import NamedTuple

AGENT = "exporter.agent."
BEGIN = (
    "<!-- From here to the end mark: written by docs/generate.py from docs/pages/bounds.py. -->\n"
)
END = "<!-- end -->\n"


class Bound(NamedTuple):
    """A bound that several tenants fill together.

    ``at``: its constants, as ``module:NAME``. ``cut``: whose things are left out when it is full.
    ``said``: what becomes of these, and where it is counted. ``test``: the file below tests/ and
    the test in which one tenant fills it, and another's figures are those of the control.
    """

    what: str
    at: tuple[str, ...]
    cut: str
    said: str
    test: str


def _pods(name: str) -> str:
    return f"sources.pods.{name}"


_POD = "named as a group by its uid; `pod_over_limit`"

BOUNDS = (
    Bound(
        "deleted pods, within their minute of grace",
        (_pods("podtable:MAX_DELETED"),),
        "the first of the namespace with most",
        _POD,
        "bounds/test_pods.py::test_pods_of_one_namespace_take_no_other_pods_name",
    ),
    Bound(
        "pods that have ended and are not deleted",
        (_pods("podtable:MAX_ENDED"),),
        "the first of the namespace with most",
        _POD,
        "bounds/test_pods.py::test_pods_of_one_namespace_take_no_other_pods_name",
    ),
    Bound(
        "pods that live",
        (_pods("podtable:MAX_LIVING"),),
        "the newest of the namespace with most",
        _POD,
        "agent/sources/pods/test_table.py::test_a_namespace_with_too_many_pods_loses_its_own",
    ),
    Bound(
        "nanoseconds of a second in which changes of one namespace's pods are read",
        (_pods("pace:MOST_NS"),),
        "that namespace, all but the newest state of each pod",
        "read a second later",
        "agent/sources/pods/test_pace.py::test_a_pod_that_changes_without_end_is_read_some_times_a_second",
    ),
    Bound(
        "pods' log directories, and links to logs, while no server is up",
        (_pods("logfilepods:MAX_PODS"), _pods("logfilepods:MAX_LINKS")),
        "the namespace with most",
        _POD,
        "agent/sources/pods/test_files.py::test_a_namespace_of_many_logs_hides_no_other",
    ),
    Bound(
        "ResourceClaims of a node's pods",
        (_pods("claims:MAX_CLAIMS"),),
        "the namespace with most",
        "its devices are not known; `claim_over_limit`",
        "agent/sources/pods/test_claims.py::test_claims_that_are_not_asked_for_are_counted",
    ),
    Bound(
        "allocations of a node",
        ("allocations.room:MAX_OF_NODE",),
        "the namespace with most, a pod at a time",
        "`allocation_over_limit`, `too_many_allocations`",
        "agent/collector/test_decoding.py::"
        "test_of_more_allocations_than_a_node_has_room_for_a_namespace_has_its_part",
    ),
    Bound(
        "series of a family (`--metrics.max-series-per-family`)",
        ("collector.cyclerules:MAX_SERIES",),
        "the namespace with most; of groups the kind and user",
        "its accounts go on; `mgpu_exporter_dropped_series_total`",
        "agent/collector/test_bound.py::test_a_user_of_many_groups_takes_no_other_users_room",
    ),
    Bound(
        "series of the page's last hour",
        ("facts.history:MAX_SERIES",),
        "the newest of the namespace or kind of group that has four times what is left",
        "its chart is empty",
        "agent/ledger/test_history.py::test_a_namespace_of_many_series_leaves_places_for_others",
    ),
    Bound(
        "processes that are known by their cgroup, living or just ended",
        ("sources.cgroups.processcontainers:MAX_PROCESSES",),
        "the newest of the pod, container or user with most",
        "looked up each time; `cache_full`",
        "agent/sources/cgroups/test_processes.py::"
        "test_one_container_of_many_processes_pushes_out_no_other_that_has_ended",
    ),
    Bound(
        "directories of a walk of the cgroups, in all and inside of one container or user",
        ("sources.cgroups.walk:DEFAULT_LIMITS",),
        "the container or user that makes them",
        "its processes are those of what lies around; `too_many`",
        "agent/sources/cgroups/test_walk.py::"
        "test_a_user_who_makes_directories_without_end_hides_no_container",
    ),
    Bound(
        "directories in which the kernel's dmem is read, in all and of one container or group",
        ("sources.cgroups.dmem:MOST_FOLDERS", "sources.cgroups.dmem:MOST_INSIDE"),
        "the container or group that makes them",
        "nothing is missing: the charge stays with what lies around",
        "agent/sources/cgroups/test_charges.py::test_who_makes_many_cgroups_hides_nobody_else",
    ),
    Bound(
        "KFD's processes that are known",
        ("sources.gpus.amd.kfdprocesses:MAX_PROCESSES",),
        "the newest of the owner with most",
        "`read_failed`",
        "field/vendors/test_hostile_amd.py::"
        "test_who_has_too_many_to_be_known_loses_one_for_each_new_one",
    ),
    Bound(
        "KFD's processes that are asked in a cycle: at work, new, idle, by size",
        (
            "sources.gpus.amd.amdturns:MOST_AT_WORK",
            "sources.gpus.amd.amdturns:MOST_NEW",
            "sources.gpus.amd.amdturns:MOST_IDLE",
            "sources.gpus.amd.amdturns:MOST_SIZES",
        ),
        "the owner with most",
        "`read_failed`",
        "field/vendors/test_hostile_amd.py::"
        "test_who_has_more_at_work_than_are_asked_is_unmeasured_alone",
    ),
    Bound(
        "open DRM files, in all and of one process",
        ("sources.gpus.drm.holders:MAX_HANDLES", "sources.gpus.drm.holders:MAX_OF_ONE"),
        "the owner with most, the process",
        "`read_failed`",
        "field/vendors/test_hostile_intel.py::test_who_has_too_many_clients_is_cut_and_nobody_else",
    ),
    Bound(
        "DRM files that are asked of one device in a cycle: at work, new, idle",
        (
            "sources.gpus.drm.drmturns:MOST_AT_WORK",
            "sources.gpus.drm.drmturns:MOST_NEW",
            "sources.gpus.drm.drmturns:MOST_IDLE",
        ),
        "the owner with most",
        "`read_failed`",
        "field/vendors/test_hostile_intel.py::"
        "test_what_was_done_while_nobody_asked_takes_nothing_from_a_neighbour",
    ),
    Bound(
        "questions that may hang, in all and of one user",
        ("sources.aside:MAX_AT_ONCE", "sources.aside:MAX_OF_ONE"),
        "the user who has most",
        "his wait; a line of the log",
        "agent/sources/groups/test_owners.py::test_users_whose_accounts_never_come_hold_up_no_other_user",
    ),
    Bound(
        "lines of the log about bad items of a source: in all, of one namespace, of nobody's",
        (
            "sources.source:MAX_LINES",
            "sources.source:MAX_OF_OWNER",
            "sources.source:MAX_OF_NOBODY",
        ),
        "the namespace with most",
        "counted all the same; the last line says so",
        "bounds/test_lines.py::test_a_namespace_with_many_bad_items_hides_no_line_about_another",
    ),
    Bound(
        "lines of the log about one reason in one namespace's allocations",
        ("collector.podallocations:MAX_LINES",),
        "that namespace",
        "counted all the same; the last line says so",
        "agent/collector/test_decoding.py::"
        "test_a_pod_with_too_many_allocations_has_none_that_is_shown",
    ),
    Bound(
        "processes whose use of their host a page shows",
        ("hostuse:MOST",),
        "the namespace or kind of group with most",
        "the cell is empty",
        "bounds/test_page.py::test_a_pod_of_many_processes_hides_no_others_use_of_the_host",
    ),
    Bound(
        "clients whose last scrape is known",
        ("collector.viewers:MOST_CLIENTS",),
        "the peer with most",
        "its scrapes do not hasten readings",
        "agent/collector/test_viewers.py::test_a_peer_of_many_names_makes_nobody_else_forgotten",
    ),
    Bound(
        "passwords, and tokens' reviews, that wait",
        ("web.peers:MAX_WAITING",),
        "the newest of the peer with most",
        "503",
        "agent/web/test_reviews.py::test_a_flood_does_not_keep_out_who_was_let_in_before",
    ),
)

# What the other bounds are of: nobody can make another's thing be cut by them.
ELSEWHERE = {
    "allocations": "one pod, or one text of it",
    "collector": "one reading, one line, or a time",
    "commands": "a shown value",
    "doctor": "what one check prints",
    "facts.build": "nothing: they are estimates",
    "hostuse": "a text of the kernel",
    "recording": "one file of the operator's",
    "settings": "the operator's own files",
    "simulation": "the operator's own scenario",
    "sources.cgroups": "one name, file or search",
    "sources.gpus": "one board, process, file or time",
    "sources.groups": "one process, group or answer",
    "sources.node": "one pod, claim, board or answer",
    "sources.pods": "one pod, container, claim, name, or the node's drivers",
    "sources.polled": "a text",
    "sources.proc": "a text",
    "web": "one request, connection or page",
}


def sizes(bound: Bound) -> list[int]:
    """How large it is, as the code has it."""
    found: list[int] = []
    for place in bound.at:
        module, _, name = place.partition(":")
        size = getattr(import_module(AGENT + module), name)
        found += [size] if isinstance(size, int) else [size.directories, size.directories_inside]
    return found


def bounds(page: str) -> str:
    """Return SECURITY.md with the table as it is in the code.

    Raises:
        ValueError: one of the two marks is not on the page.

    """
    from pages.tables import table  # noqa: PLC0415 - tests read the rows from another folder

    before, _, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        message = "SECURITY.md has lost the marks around its table of bounds"
        raise ValueError(message)
    heads = (
        "what tenants fill together",
        "at most",
        "who is cut",
        "what follows",
    )
    rows = [
        (
            bound.what,
            ", ".join(map(str, sizes(bound))),
            bound.cut,
            bound.said,
        )
        for bound in BOUNDS
    ]
    return f"{before}{BEGIN}\n{table(heads, rows)}\n{END}{after}"
