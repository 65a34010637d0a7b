"""What drives, or stops, when the learner may not go on."""
