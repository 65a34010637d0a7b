"""Comparison of exported C shields with the Python shields they came from: `python -m c_fuzz --questions 100000`."""
