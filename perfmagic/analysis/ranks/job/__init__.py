"""All ranks of a job replayed together: what held the job, and what it would take with a change."""
