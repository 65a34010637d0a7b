"""Reports: they read run folders and never train."""
