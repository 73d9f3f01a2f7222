"""Stored unlabeled samples."""
