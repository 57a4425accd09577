"""Adapter processes: the harness's side (`process`), the Python side (`serve`), and the adapters that are shipped."""
