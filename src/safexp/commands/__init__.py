"""The commands of the command line, one module each.

A command imports torch, plotly and scipy only when it runs, so that help appears at once.
"""
