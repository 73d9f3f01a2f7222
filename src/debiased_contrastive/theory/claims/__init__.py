"""One file for each statement: the cases on which it is checked."""
