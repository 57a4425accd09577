"""The laboratory for the released native package: its readers, the engine on its tables, and what is kept of it."""
