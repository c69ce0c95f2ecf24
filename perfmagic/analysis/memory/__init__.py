"""What held a device's memory: blocks, why each was alive, what would have lowered the most."""
