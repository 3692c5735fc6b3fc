"""All timings: steps over Adam's, then peak memory. Written to docs/results/.

make bench
"""

import subprocess
import sys

from benchmarks import steps


def main() -> None:
    steps.main()
    subprocess.run([sys.executable, "-m", "benchmarks.memory"], check=True)


if __name__ == "__main__":
    main()
