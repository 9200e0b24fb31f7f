"""Every kind of mishap, by name."""

from tests.faults.full_disks import FULL_DISKS
from tests.faults.mishap import Befall

MISHAPS: dict[str, Befall] = {**FULL_DISKS}
"""What the machine and its operator can do; the deck deals each kind before any comes again."""
