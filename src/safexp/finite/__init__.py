"""Problems small enough for exact answers: grid worlds and generalised-linear CMDPs."""
