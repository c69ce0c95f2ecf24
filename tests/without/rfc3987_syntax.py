"""Absent in tests: it compiles a grammar for four seconds of CPU in every process that imports nbformat.

jsonschema imports it where it can, to check a kind of address that no notebook has.
"""

raise ImportError("left out by the tests", name=__name__)
