"""2. parse: Found -> Skill."""
