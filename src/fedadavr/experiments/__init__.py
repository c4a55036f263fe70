"""Settings, runs and the problems they are run on."""
