"""`python -m debiased_contrastive.reproduce figure4 --out DIR`: the runs of a figure or table, and its tables."""

import sys

from debiased_contrastive.reproduce.runner import main

NAMES = ("figure4", "table1", "table2", "table3")

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in NAMES:
        print(f"usage: python -m debiased_contrastive.reproduce {{{','.join(NAMES)}}} --help", file=sys.stderr)
        sys.exit(2)
    main(f"debiased_contrastive.reproduce.{sys.argv[1]}", sys.argv[2:])
