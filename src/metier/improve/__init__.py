"""8. improve: Traces -> Proposals.

Other packages import:

- `improver`: what follows a run: find the skills at fault, propose changes, put them through the gates.
- `land`: accept, reject, watch and take back proposals.  `store`: proposals on disk.
- `evaluate`: run a skill's evals and trigger prompts.  `report`: their results as JSON and as a page.
- `trials`: the queues a trial runs on.

Within the package: `fix_rules` changes by rule, `propose` lets a model change, `gates`, `replay`, `rerun`, `proofs` and
`evaluate` check the change, `budget` limits what that costs.  For evals: `evals` reads them, `eval_runner` runs
them, `grade` grades, `score` compares.
"""
