"""Tables that were written long ago: their data files, what their manifests leave out, and the way to new ones."""
