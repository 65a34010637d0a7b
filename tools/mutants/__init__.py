"""Random mutations of the safety core, each of which some test must detect.

`python -m mutants` (see `make mutants`) changes one small thing at a time in a copy of the source tree and runs the
tests that reach it. A mutant that no test notices is a gap in the tests, or is equivalent to the original.
"""
