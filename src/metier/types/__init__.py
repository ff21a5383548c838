"""The frozen values that all packages share, one idea per file; imports nothing of ours.

Start with `skill` (what a SKILL.md says), `dialect` (how a product reads and serves it), `problem` (findings and their
messages) and `errors` (what is raised).  The others hold the values of one stage each.
"""
