"""The same objectives behind the names and calls of other libraries."""
