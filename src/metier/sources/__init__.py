"""1. sources: Roots -> Found.

Import `roots` for the folders to look in, `scan` to look, `index` for what is remembered between two looks, `plugins`
and `bundled` for skills that come with something else, and `strict` to validate a folder.
"""
