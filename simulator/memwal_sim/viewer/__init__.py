"""Looking at a trace: as a page, as text for a terminal, and as a Mermaid diagram.

A replay is watched step by step (`film`); the three forms are made from what was seen. Nothing of the page is computed
where it is shown but which step is looked at: bytes are decoded here, by the engine's own codec.
"""
