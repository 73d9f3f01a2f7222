"""Section 5: who is positive and who is unlabeled, for each domain of the paper."""
