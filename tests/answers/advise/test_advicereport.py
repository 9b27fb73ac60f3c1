"""What the table of advice says below its rows."""

from dataclasses import replace

import pytest

from exporter.answers.advise.advice import Advice, Found, Workload
from exporter.answers.advise.advicereport import written_as
from exporter.answers.advise.amounts import Resource
from exporter.answers.advise.sizing import SizingOutcome

LESS = Advice(
    resource=Resource.CORE,
    allocated=3 / 7,
    typical=0.1,
    peak=0.1,
    recommended=0.12,
    freed=None,
    outcome=SizingOutcome.LOWER,
    confidence=7,
    observed_ratio=1,
    scheme="nvidia-device-plugin",
)


def said(*advice: Advice) -> str:
    workload = Workload("", "team", "Deployment", "chat", "main")
    return written_as("table", Found([(workload, one) for one in advice], 0), 0, 86_400)


def test_who_has_a_card_or_an_instance_hears_what_to_ask_for_instead_of_an_amount() -> None:
    (last,) = said(LESS).splitlines()[-1:]
    assert last == (
        "By nvidia-device-plugin a pod gets whole cards, MIG instances or equal parts: take the "
        "smallest that has both amounts, if there is one (nvidia-smi mig -lgip lists MIG's)."
    )


def test_what_a_system_gives_is_said_only_where_something_else_is_advised() -> None:
    kept = replace(LESS, recommended=LESS.allocated, outcome=SizingOutcome.KEEP)
    refused = replace(LESS, recommended=None, outcome=SizingOutcome.TOO_EARLY)
    assert "nvidia-device-plugin" not in said(kept, refused)


def test_a_step_that_no_document_says_is_said_to_be_unknown() -> None:
    assert "The steps are not known of: core of aliyun-ack.\n" in said(
        replace(LESS, scheme="aliyun-ack")
    )


def test_memory_that_never_changes_is_not_said_to_be_more_than_that() -> None:
    flat = replace(LESS, recommended=None, outcome=SizingOutcome.PREALLOCATED)
    assert (
        "preallocated: it always holds the same large part of its limit, as vLLM and JAX do: what "
        "it needs of that is not known\n"
    ) in said(flat)


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_in_any_width_names_and_what_is_copied_are_whole(columns: int) -> None:
    workload = Workload("", "inference-of-the-team", "Deployment", "chat-13b-with-a-name", "server")
    advice = replace(LESS, scheme="vke-mgpu")
    found = Found([(workload, advice), (workload, replace(advice, resource=Resource.MEMORY))], 0)

    said = written_as("table", found, 0, 86_400, columns).splitlines()
    name = "inference-of-the-team/Deployment/chat-13b-with-a-name server"
    request = "vke.volcengine.com/mgpu-core: 12"
    assert max(map(len, said)) <= columns
    assert any(line.startswith(name) for line in said)
    assert any(line.endswith(request) for line in said)
    assert (f"    {request}" in said) == (columns < 200)
