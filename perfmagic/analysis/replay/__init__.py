"""A trace replayed: what held each instant, what would change, and what that would gain. Source: docs/replay.md."""
