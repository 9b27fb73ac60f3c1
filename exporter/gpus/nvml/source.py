"""The NVML source: opens the driver, finds the devices, reads them side by side under a deadline."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from time import monotonic  # noqa: ICN003

from exporter.gpus.nvml.backoff import SECOND, Backoff
from exporter.gpus.nvml.device import NvmlDevice
