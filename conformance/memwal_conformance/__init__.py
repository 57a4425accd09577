"""The MemWAL conformance suite: one adapter protocol, artifact vectors, scenarios, a judge with a decoder of its own.

`pytest conformance/` runs the reference engine through the same adapter process that any other implementation uses;
`pytest conformance/ --memwal-adapter "cmd …"` runs another one. See ``docs/adapter.md``.
"""
