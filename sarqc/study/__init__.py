"""Studies: the results of runs and surveys, as files and as statistics."""
