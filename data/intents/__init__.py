"""Turns what steps of STITCH said about turns into notes, labels and ledgers that recall reads."""
