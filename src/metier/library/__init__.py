"""The stages put together for one place: open() and Library.

Others import `open` (`open`, `open_at`, `OpenRequest`), `library` (`Library`), `access` (`SkillAccess`: use the
skills), `live` and `watch` (a library that follows the disk), `lockfile` (install roots and their locks), `trust` and
`settings` (what the user trusted and configured), `grants` (what a skill's programs may reach), `search` and `export`.
"""
