"""Skills from elsewhere: a reference is fetched, inspected, placed whole, and written down in a lock.

Others import `add` (`open_offer`, `accept_offer`), `update`, `sync`, `verify` and `remove` for the commands of those
names, `managed` (change a skill and keep its history), `transaction` (install roots: staging, recovery, history),
`inspect` and `rules` (what a skill can do, what is suspicious in it), `recipes` (programs that skills need) and
`operations` (the same for async callers).
"""
