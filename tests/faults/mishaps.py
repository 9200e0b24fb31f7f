"""Every kind of mishap, by name."""

from tests.faults.full_disks import FULL_DISKS
from tests.faults.gaps import GAPS
from tests.faults.hard_times import HARD_TIMES
from tests.faults.mischief import MISCHIEF
from tests.faults.mishap import Befall
from tests.faults.rollback import ROLLBACKS
from tests.faults.second_engines import SECOND_ENGINES

MISHAPS: dict[str, Befall] = {
    **FULL_DISKS,
    **HARD_TIMES,
    **SECOND_ENGINES,
    **ROLLBACKS,
    **MISCHIEF,
    **GAPS,
}
"""What the machine and its operator can do; the deck deals each kind before any comes again."""
