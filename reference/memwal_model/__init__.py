"""The abstract machine of one MemWAL region, what holds of it, and the proofs. Imports nothing of the engine."""
