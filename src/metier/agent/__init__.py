"""6. agent: Activation + Messages -> Events.

Others import `agent` (`Agent`, `agent_for`, `preview_request`), `session` (`Session`), `agent_files` (the agents there
are), `permissions` (rules), `policies` (`durable_step`, for runs that survive a crash) and `models.registry` (models by
name).  Inside, a turn goes from `session` through `turns` to `loop`; `session_tools` wraps the tools.
"""
