"""From a description to a run folder: build, train, resume, sweep, play."""
