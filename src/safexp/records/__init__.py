"""What happened, counted without the shield: episodes, coverage, input shift, statistics."""
