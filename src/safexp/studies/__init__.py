"""Studies: settings in, numbers and figures out."""
