"""What builds the site; its pages are the Markdown beside it."""
