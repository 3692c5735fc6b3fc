"""All timings: steps over Adam's, their growth, time to Adam's objective, peak memory, and other second-order methods
where they are installed. Written to docs/results/.

make bench
"""

import subprocess
import sys

from benchmarks import steps


def main() -> None:
    steps.main()
    for name in ("growth", "reach", "memory", "peers"):  # each in a process of its own
        print(f"\n{name}", flush=True)
        subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True)


if __name__ == "__main__":
    main()
