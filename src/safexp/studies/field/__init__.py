"""Field trials: systems that others wrote, each from the log of a cautious controller to a trained policy."""
