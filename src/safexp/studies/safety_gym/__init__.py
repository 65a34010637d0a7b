"""The paper's comparison on the static Goal tasks: MASE beside learners that do not keep the constraint in training.

`study` says what is run, `results` what is kept of the runs, `comparison` what that comes to over seeds, `tables` and
`figures` show it beside the paper's, and `command` is `safexp reproduce safety-gym`. Violations, stops and costs are
counted by the recorder on the true costs, for every method alike.
"""
