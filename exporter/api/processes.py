"""A process as a JSON object."""

from exporter.api.figures import Json
from exporter.ledger.book_view import RATIOS
from exporter.model import Process


def process_object(process: Process) -> Json:
    """What is known of it."""
    ratios = {name: getattr(process, quantity) for quantity, name in RATIOS.items()}
    known = {
        "pid": process.pid,
        "name": process.name or None,
        "type": process_type(process.kinds) if process.kinds else None,
        "memory_used_bytes": process.memory_bytes,
        **ratios,
        "start_timestamp_seconds": process.start_unix_ns and process.start_unix_ns / 1e9,
    }
    return {name: value for name, value in known.items() if value is not None}


def process_type(kinds: frozenset[str]) -> str:
    """As nvidia-smi shows it: C computes, G draws, C+G both, M+C is a client of MPS."""
    computes = "M+C" if "mps" in kinds else "C" if kinds & {"compute", "mps_server"} else ""
    draws = "G" if "graphics" in kinds else ""
    return "+".join(filter(None, (computes, draws)))
