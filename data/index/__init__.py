"""Turns turns into something that can be searched: terms, postings, vectors, and one ranking of them all."""
