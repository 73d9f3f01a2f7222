"""The command `debiased`."""
