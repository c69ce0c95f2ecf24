"""Changes of a program, as changes of the graph that its record is replayed on. They compose."""
