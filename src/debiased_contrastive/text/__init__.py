"""Sentences (Section 5.2): Quick-Thoughts, and the six tasks that judge it."""
