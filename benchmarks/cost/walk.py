"""``python -m benchmarks.cost.walk FOLDER PASSES``: CPU microseconds of each of our walks there."""

import sys
import time

from exporter.agent.sources.cgroups.walk import walk

if __name__ == "__main__":
    for _ in range(int(sys.argv[2])):
        begun = time.process_time_ns()
        walk(sys.argv[1])
        print((time.process_time_ns() - begun) / 1000)
