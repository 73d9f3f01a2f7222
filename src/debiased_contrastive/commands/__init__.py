"""What each command of `debiased` does, by the extra that it needs."""
