"""The older MemWAL index (revision 0): a model of it, a decoder of its records, and the way out of it.

In revision 0 the table's MemWAL index holds a record for each MemWAL, and every step of a writer is a commit of the
table. The texts leave the WAL's own files to the implementer; here they are Arrow IPC streams. This room is for tests
of the model and for migration: it offers no writer to others (AMB-134).
"""
