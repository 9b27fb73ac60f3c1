"""Print what docs/accuracy.md sums up on steps of the clock: ``python -m benchmarks.clock``."""

import sys

from tests.gpus.test_window_steps import (
    METHODS,
    STAMPS,
    STATES,
    STEPS,
    Device,
    seconds_until_true,
    stepped,
    zeros,
)


def main() -> int:
    """Print a row for each device and state; the status is 1 if a window read zero at work."""
    print("| method | samples stamped by | state |", *(f"{step:+d} |" for step in STEPS), "zeros |")
    print("|---|---|---|" + "---:|" * (len(STEPS) + 1))
    all_zeros = 0
    for method in METHODS:
        for stamps in STAMPS:
            for state in STATES:
                seconds, wrong = [], 0
                for step in STEPS:
                    device = Device(method, stamps, sleeps=state == "silent")
                    watch, begin = stepped(device, step, state)
                    seconds.append(seconds_until_true(watch, begin))
                    wrong += len(zeros(watch, begin))
                all_zeros += wrong
                cells = " | ".join(f"{value:.0f}" for value in seconds)
                print(f"| {method} | {stamps} | {state} | {cells} | {wrong} |")
    return 1 if all_zeros else 0


if __name__ == "__main__":
    sys.exit(main())
