"""Config keys of a generation's table, by which those who read it know what it covers, and who flushed it (AMB-95)."""

CONFIG_FIRST = "memwal.wal_first"
CONFIG_LAST = "memwal.wal_last"
"""First and last position of the WAL entries that it covers."""
CONFIG_EPOCH = "memwal.writer_epoch"
"""Epoch of the writer that flushed it."""
CONFIG_FILLED = "memwal.filled"
"""Names of columns, separated by line feeds, that some rows did not have when they were stored: whether NULL is a value
there or none is not known, and no merge may replace a value by it (AMB-50)."""
