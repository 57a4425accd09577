"""Pages of the documentation that are generated from the registry and the code, and checked for drift."""
