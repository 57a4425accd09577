"""The laboratory for the released native package: lives, races, sweeps of faults, and its readers."""
