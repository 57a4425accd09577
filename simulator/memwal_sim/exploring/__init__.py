"""Every interleaving of a world's processes and every fate of their requests, within bounds."""
