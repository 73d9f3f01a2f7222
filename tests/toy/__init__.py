"""Points in the plane: a domain of somebody else, added to the command line without touching the package."""
