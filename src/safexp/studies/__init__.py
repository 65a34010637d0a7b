"""Studies: a frozen description of a run, the run itself, and the folder it leaves behind."""
