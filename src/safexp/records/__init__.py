"""Records that are independent of the shield: episodes, coverage, input shift, statistics."""
