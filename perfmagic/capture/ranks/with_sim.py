"""Imported by a fork server for ranks on the simulated device: what loading it takes is shared, and paid once."""

from __future__ import annotations

from perfmagic import sim

sim.prepare()
sim.groups.register()
