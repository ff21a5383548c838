"""7. record: Events -> Traces.

`journal` writes and reads the events of a run, `trace` is a run read back, `stats` counts skills over many runs, and
`history` keeps every version of a skill.
"""
