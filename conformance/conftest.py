"""Loads the conformance plugin: its options, its cases and its summary."""

pytest_plugins = ["memwal_conformance.plugin"]
