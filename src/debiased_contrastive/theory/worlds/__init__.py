"""Worlds in which expectations are sums or closed forms, with samplers for p, p+, p- and stand-ins for p+."""
