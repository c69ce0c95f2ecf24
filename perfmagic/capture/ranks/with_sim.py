"""Imported by a fork server for ranks on the simulated device: what loading that imports is shared, and paid once.

The device itself is each rank's own: it refuses to be used in a fork of the process that loaded it.
"""

from __future__ import annotations

import torch

from perfmagic.capture.devices.groups import life as _groups  # noqa: F401 - imported for the forks
from perfmagic.capture.devices.sim import device as _device  # noqa: F401
from perfmagic.capture.devices.sim import module as _module  # noqa: F401

torch.empty(1, device="meta").add(1)  # the first op on meta imports much of torch
