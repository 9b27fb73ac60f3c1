"""The program ``mgpu-exporter``, also as ``python -m exporter``.

This module imports nothing else at its top, so that an interrupt while modules load is handled.
"""

import os
import signal
import sys


def main() -> int:
    """Run a command and return its exit status. An interrupt during the start ends it silently."""
    # Not a KeyboardInterrupt: raised within the import machinery, it may be printed and lost.
    signal.signal(signal.SIGINT, lambda *_: os._exit(128 + signal.SIGINT))
    from exporter import cli  # noqa: PLC0415 - after the handler is set

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
