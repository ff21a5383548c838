"""2. parse: Found -> Skill.

Import `reader` to read a file, `markers` for the commands in a body, `config` for settings, `check`, `lint` and `fix`
for what the commands of those names do, and `jsonc` to edit a JSON file in place.
"""
