"""Imported by a fork server for ranks on the simulated device: what loading it takes is shared, and paid once."""

from __future__ import annotations

from perfmagic.capture.devices import groups, sim

sim.prepare()
groups.register()
