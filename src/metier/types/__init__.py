"""The frozen nouns of metier, one idea to a file; this package imports nothing of ours."""
