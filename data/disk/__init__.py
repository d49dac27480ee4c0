"""Turns histories into a database file that keeps its word, and back: add, forget, verify, read."""
