"""What must hold of a run with a fault beside the one without. Each finding is a sentence."""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from tests.doors.matrix import FEW_S, LAST_S, LITTLE, Cell, Run, Values

OWNERS = re.compile(r"mgpu_(?:container|pod|namespace|group|group_kind)_")
COUNTED = re.compile(r"\w+_total\b")
AMOUNT = re.compile(
    r"mgpu_(?:container|pod|namespace|group|group_kind|device)_"
    r"(?:core_seconds_total|busy_seconds_total|memory_used_bytes|energy_joules_total|"
    r"allocated_gpus|allocated_gpu_seconds_total|decoder_seconds_total)"
)
SELDOM = re.compile(r"mgpu_\w+_(?:copy|eviction)_seconds_total")  # read each ten seconds
NOBODYS = re.compile(r"unattributed|unobserved|unexplained|unallocated|unmeasured|idle|info")
EXPORTERS = re.compile(r"mgpu_(?:exporter|source)_")
SAYS = re.compile(
    r"mgpu_\w*unmeasured|mgpu_exporter_(?:source_up|rejected\w*|unreadable_devices)|mgpu_device_up|"
    r"mgpu_device_unattributed|mgpu_device_unobserved|mgpu_device_unexplained|mgpu_exporter_dropped"
)
HOLDS = re.compile(r'mgpu_(container|group|device)_memory_used_bytes\{.*uuid="([^"]+)"')
IS_DOWN = re.compile(
    r'mgpu_exporter_source_up\{source="(?:amd|drm)"|mgpu_device_up\{.*(?:GPU-0000|DRM-)'
)
NUMBER = re.compile(r'gpu="\d+",|minor="\d+",?')
PLACED = re.compile(r"mgpu_container_allocated_gpus\{")
EPS = 0.02
FINAL = {"absent", "refused", "not found"}  # of a driver's call, which is asked again after minutes
SAYS_ABSENT = {"absent", "ENODEV", "lost", "half", "not found", "empty", "back", "elsewhere"}
MISTAKES = re.compile(r'unmeasured.*reason="(?:gpu_lost|not_supported)"')
SEEN_S = 4  # at the end of a fault that lasts, what stands still so long is no short gap


def findings(cell: Cell, faulty: Run, control: Run) -> Iterator[str]:
    """What is wrong."""
    if cell.what.path == "boards.order":
        faulty, control = (
            replace(r, pages=tuple(map(_unnumbered, r.pages))) for r in (faulty, control)
        )
    yield from _more(cell, faulty, control)
    yield from _zero(cell, faulty, control)
    yield from _held(cell, faulty)
    yield from _siblings(cell, faulty, control)
    yield from _mistaken(cell, faulty, control)
    yield from _silent(cell, faulty, control)
    yield from _unchecked(cell, faulty, control)
    yield from _after(cell, faulty, control)


def _unnumbered(page: Values) -> Values:
    """The page without the numbers of boards."""
    return {NUMBER.sub("", key): value for key, value in page.items()}


def _more(cell: Cell, faulty: Run, control: Run) -> Iterator[str]:
    """Nobody has more than without the fault; no counter outruns it, also after the end."""
    is_alone = False  # a pod that is not on its card yet leaves its part to the others there
    for second, (page, known) in enumerate(zip(faulty.pages, control.pages, strict=True)):
        is_alone = is_alone or any(PLACED.match(key) and key not in page for key in known)
        for key, value in page.items():
            if (is_alone and "_allocated_" in key) or _is_unnamed(cell, key):
                continue
            if NOBODYS.search(key) or EXPORTERS.match(key) or 'uuid=""' in key:
                continue
            if _is_an_end(cell) and not SELDOM.match(key):
                continue  # who is left did what the card did
            is_owned = OWNERS.match(key) and (AMOUNT.match(key) or SELDOM.match(key))
            if not (is_owned or (key.startswith("mgpu_device_") and COUNTED.match(key))):
                continue
            most = known.get(key, 0.0)
            eps = 0.1 if "joules" in key else EPS  # other evidence of energy is less exact
            if value > most + eps * max(most, 1.0) + (1.0 if COUNTED.match(key) else 0):
                yield f"more: {key} is {value:.6g} for {most:.6g} after {second} s"
                return


def _zero(cell: Cell, faulty: Run, control: Run) -> Iterator[str]:
    """What is not 0 without the fault is neither 0 nor stands still: it is absent."""
    if cell.lasting == "once" or _is_an_end(cell):
        return
    last = cell.ends_s - 1
    page, known = faulty.pages[last], control.pages[last]
    before = (faulty.pages[last - SEEN_S], control.pages[last - SEEN_S])
    for key, value in known.items():
        if not AMOUNT.match(key) or key not in page or not value:
            continue
        if not COUNTED.match(key):
            if page[key] == 0:
                yield f"zero: {key} is 0 for {value:.6g}"
                return
        elif key.startswith("mgpu_pod_") and 'pod="late"' in key and not page[key]:
            continue  # OPEN: a pod of which nothing was seen yet has no card, and 0
        elif value - before[1].get(key, value) > EPS and page[key] == before[0].get(key):
            yield f"still: {key} stands still at {page[key]:.6g}"
            return


def _held(cell: Cell, faulty: Run) -> Iterator[str]:
    """A card has no less in use than its processes hold, where its count lacks most of it."""
    for second, page in enumerate(faulty.pages if cell.answer == LITTLE else ()):
        held, used = defaultdict[str, float](float), defaultdict[str, float](float)
        for key, value in page.items():
            if found := HOLDS.match(key):
                (used if found[1] == "device" else held)[found[2]] += value
        for uuid in used.keys() & held.keys():
            if used[uuid] < held[uuid]:
                yield f"held: {used[uuid]:.6g} in use of {held[uuid]:.6g} held after {second} s"
                return


def _is_unnamed(cell: Cell, key: str) -> bool:
    """Whether it is of a pod that came while the pods could not be had: it has no name then."""
    return cell.what.path == "pods.watch" and 'kind="pod"' in key


def _is_an_end(cell: Cell) -> bool:
    """Whether the answer says that a process has ended, which is a fact and no fault."""
    is_process = "proc/N" in cell.what.path
    return cell.answer in {"absent", "ENODEV", "half", "elsewhere"} and (
        is_process or cell.what.path in {"proc", "sys/class/kfd/kfd/proc"}
    )


def _siblings(cell: Cell, faulty: Run, control: Run) -> Iterator[str]:
    """What is card B's is as without a fault of card A."""
    if not cell.one:
        return
    marks = (f'uuid="{control.uuid_b}"', 'pod="far"', 'pod="late"')
    for second, (page, known) in enumerate(zip(faulty.pages, control.pages, strict=True)):
        for key in page.keys() | known.keys():
            if EXPORTERS.match(key) or not any(mark in key for mark in marks):
                continue
            if key.startswith("mgpu_group_info"):
                continue  # who has an account is read aside, by a thread of its own
            ours, theirs = page.get(key), known.get(key)
            if ours is None or theirs is None or abs(ours - theirs) > EPS * max(abs(theirs), 1):
                yield f"sibling: {key} is {ours} for {theirs} after {second} s"
                return


def _mistaken(cell: Cell, faulty: Run, control: Run) -> Iterator[str]:
    """What could not be read is not lost, has not gone and is not without the quantity."""
    if cell.answer in SAYS_ABSENT:
        return
    for second, (page, known) in enumerate(zip(faulty.pages, control.pages, strict=True)):
        for key in page.keys() - known.keys():
            if _is_unnamed(cell, key):
                continue
            if MISTAKES.search(key) and not any(key in before for before in control.pages):
                yield f"mistaken: {key} after {second} s"
                return
        for key in known.keys() - page.keys():
            if key.startswith("mgpu_device_up{") and second > cell.begins_s:
                yield f"gone: {key} after {second} s"
                return


def _silent(cell: Cell, faulty: Run, control: Run) -> Iterator[str]:
    """Where anything is otherwise, something is said: by a series or the log."""
    if _is_an_end(cell) or cell.answer == LITTLE:  # nobody can see what a count lacks
        return
    said = set(faulty.said) - set(control.said)
    for second in range(LAST_S):
        page, known = faulty.pages[second], control.pages[second]
        if any(SAYS.match(key) and page.get(key) != known.get(key) for key in page.keys() | known):
            return
    if said:
        return
    last = cell.ends_s - 1
    page, known = faulty.pages[last], control.pages[last]
    for key in sorted(known):
        is_fact = cell.answer == "back" and not COUNTED.match(key)  # of less in use nothing is said
        if AMOUNT.match(key) and _differs(page, known, key) and not is_fact:
            yield f"silent: {key} is {page.get(key)} for {known[key]:.6g}, and nothing is said"
            return


def _unchecked(cell: Cell, faulty: Run, control: Run) -> Iterator[str]:
    """Where a source or a board is down, ``check`` finds something wrong."""
    page, known = (each.pages[cell.ends_s - 1] for each in (faulty, control))
    down = [key for key in known if IS_DOWN.match(key) and known[key] and not page.get(key)]
    if down and not faulty.checked - control.checked:
        yield f"unchecked: {down[0]} is {page.get(down[0])}, and check finds nothing"


def _after(cell: Cell, faulty: Run, control: Run) -> Iterator[str]:
    """Within seconds of the end all is as without the fault: gauges, and how fast counters grow."""
    end = cell.ends_s + FEW_S
    if cell.lasting == "ever" or end + 2 > LAST_S:
        return
    if cell.what.how == "call" and cell.answer in FINAL:
        return
    page, known = faulty.pages[-1], control.pages[-1]
    for key in sorted(known.keys() | page.keys()):
        # What the card draws while nobody has it open is what it draws idle.
        if NOBODYS.search(key) or (_is_an_end(cell) and "energy" in key):
            continue
        if not AMOUNT.match(key) or (key not in page and COUNTED.match(key) and known[key] == 0):
            continue
        if key not in page or key not in known:
            if 'kind="' in key or 'uuid=""' in key or (key in page and COUNTED.match(key)):
                continue  # what was somebody's for a time has an account
            yield f"after: {key} is {page.get(key)} for {known.get(key)} at the end"
            return
        grown, truth = page[key], known[key]
        if COUNTED.match(key):
            since = next(s for s in range(end - 1, LAST_S) if key in faulty.pages[s])
            grown -= faulty.pages[since][key]
            truth -= control.pages[since].get(key, 0.0)
        if abs(grown - truth) > 0.1 * max(abs(truth), 1):
            yield f"after: {key} has {grown:.6g} for {truth:.6g} at the end"
            return


def _differs(page: Values, known: Values, key: str) -> bool:
    return key not in page or abs(page[key] - known[key]) > EPS * max(abs(known[key]), 1)
