"""The `weft` command as trials start it: results are written at once, and bugs may be planted.

python tests/faults/launch.py [--plant NAME]… run workload.sql …
"""

import sys

from tests.faults.conditions import PROMPT
from tests.faults.leash import die_with_parent
from tests.faults.mutants import plant
from weft.cli import main

if __name__ == "__main__":
    die_with_parent()
    plant(PROMPT)
    while sys.argv[1:2] == ["--plant"]:
        plant(sys.argv[2])
        del sys.argv[1:3]
    main()
