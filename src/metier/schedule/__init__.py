"""Skills on a schedule: triggers, what is due, the store that claims it exactly once, and durable runs.

Other packages import:

- `times`: what a text means as a trigger, and when a trigger fires.
- `requests`: create a schedule, find one, change its time.
- `runner`: the agent's side: check terms, run a firing, the tools to schedule.
- `store`, `pins`, `database`: read and change what is stored.
- `worker`: the daemon's loop.  `batch`: many tasks over the same queue.

Within the package: `plan` computes what is due, `claims` enters it, `queue` hands it out, `durable` runs it on DBOS,
`fire` and `calls` do the work, and `failures` records work that crashes.
"""
