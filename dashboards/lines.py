"""Lines of charts: those that used most in the time range, and the others together as one line.

Such lines are few, and they are the same in a chart of core and in one of memory: so each
has one colour. With ``@ end()`` Prometheus finds them once, not at each step.
"""

MOST = 8  # lines by core, and by memory

SAME_GROUP = "job, cluster, instance, uuid, kind, group"


def lines(figure: str, by: str, most: str, legend: str, others: str) -> dict[str, str]:
    """Queries by their legends: of each of ``most``, and of the others; ``by`` are its labels."""
    each = f"sum by ({by}) ({figure})"
    return {legend: f"{each} and {most}", others: f"sum({each} unless {most})"}


def most_of_containers(by: str, selector: str, cards: str = "") -> str:
    """Of containers, those that used or held most; ``cards`` limits on which devices."""
    core = f"increase(mgpu_container_core_seconds_total{{{selector}}}[$__range] @ end())"
    held = f"max_over_time(mgpu_container_memory_used_bytes{{{selector}}}[$__range] @ end())"
    return _most(by, f"{core}{cards}", f"{held}{cards}")


def most_of_groups(by: str, selector: str, named: str = "") -> str:
    """Of groups, those that used or held most; ``named`` asks for labels of their names.

    A short job may have all of its use in its counter's first sample: ``increase`` leaves it out.
    """
    info = f"mgpu_group_info{{{selector}{named}}}"
    # Of the names that a group has had, one: a join takes no more.
    name = f"topk by ({SAME_GROUP}) (1, max_over_time({info}[$__range] @ end()))"
    core = f"sum_over_time(mgpu_group_core_utilization_ratio{{{selector}}}[$__range] @ end())"
    held = f"max_over_time(mgpu_group_memory_used_bytes{{{selector}}}[$__range] @ end())"
    return _most(by, *(group_figure(figure, by, name) for figure in (core, held)))


def group_figure(figure: str, by: str, info: str) -> str:
    """A figure of each group with those labels of ``by`` that only its ``info`` has.

    While an exporter's pod is replaced, Prometheus may have the infos of both.
    """
    own = ", ".join(label for label in by.split(", ") if label not in SAME_GROUP.split(", "))
    return f"{figure} * on ({SAME_GROUP}) group_left ({own}) max by ({SAME_GROUP}, {own}) ({info})"


def _most(by: str, *figures: str) -> str:
    return f"({' or '.join(f'topk({MOST}, sum by ({by}) ({figure}))' for figure in figures)})"
