"""The models an agent can ask.

`registry` selects one by name; `pydantic_ai` talks to hosted services, `local` runs a small model in this process.
"""
