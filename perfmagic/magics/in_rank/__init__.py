"""What a rank of %%ranks runs: its program, its shell, and the cell magic that records there."""
