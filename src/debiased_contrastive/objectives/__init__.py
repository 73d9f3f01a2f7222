"""Sections 3 and 4 of the paper: statistics, the estimator g (Eq. 7), losses (Eq. 1, 2, 8), exact forms."""
