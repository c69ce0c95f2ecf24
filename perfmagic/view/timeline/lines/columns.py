"""Where the columns of numbers stand in the picture of lines, in px."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """A column of numbers: its heading, where its bars begin, and where its numbers end."""

    name: str
    bar_x: int
    right: int

    def shifted(self, px: int) -> Column:
        """The same further to the right."""
        return Column(self.name, self.bar_x + px, self.right + px)


BAR_ROOM_PX = 36  # of the longest bar: numbers stand beside it
PYTHON, WAITING, DEVICE = Column("Python", 632, 706), Column("waiting", 716, 786), Column("device", 796, 866)
BACKWARD = Column("its backward", 878, 950)
OPS_X, OPS_X_WITHOUT_BACKWARD = 994, 912
MEMORY = Column("at the peak", 930, 996)
MEMORY_ROOM_PX, MEMORY_BAR_PX = 70, 24  # the strips give that up where all columns are there
