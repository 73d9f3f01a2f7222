"""Doctests of the package run without other people's libraries, which take long to import or are absent."""

collect_ignore_glob = ["debiased_contrastive/integrations/*"]
