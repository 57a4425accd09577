"""Histories as text: recorded, replayed, made small and promoted; and the study that finds one."""
