"""JAM: the Researcher that searches and browses raw sessions at run time (arXiv 2609.34385)."""
