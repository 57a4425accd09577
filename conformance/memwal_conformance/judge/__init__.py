"""The judge: what is on the store, read with code of its own.

Nothing in this package imports the engine, and nothing here is shared with an adapter: protobuf is read field by field
(`wire`), Arrow streams message by message (`wal`), and Lance files and tables through pylance. A fault of the engine
is therefore never excused by the same fault in the judge.
"""
