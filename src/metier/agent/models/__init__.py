"""The models an agent can ask: hosted services, a local one, and how a name selects one."""
