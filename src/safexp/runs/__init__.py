"""Training runs: settings, run folder, resume, sweep, play."""
