"""Turns reports into one HTML page: `page` writes it, from `figures` of systems and `charts` of them, by `drawing`."""
