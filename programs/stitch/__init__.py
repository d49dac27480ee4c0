"""STITCH: turns get a contextual intent when they come, and recall matches that of a question (arXiv 2601.10702)."""
