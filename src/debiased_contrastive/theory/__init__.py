"""Lemmas 1 to 4, Theorems 3 and 5: bounds as numbers, worlds in which every expectation is exact, and checks."""
