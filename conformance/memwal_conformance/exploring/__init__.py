"""Other implementations, explored: every fault, crash and order of requests that a budget allows, on short lives."""
