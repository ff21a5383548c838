"""Touches the machine, as only `sandbox` does besides: files, processes, the network, SQLite, facts, locks, the watch.

Others import, for the most part: `paths` to ask about files and list folders; `files` to read a skill's files safely;
`fs` to write state atomically and hold locks; `trees` to copy, exchange and digest folders; `facts` for the clock, the
place and the programs there are; `process` to run programs; `archives`, `git` and `http` to fetch from
elsewhere; `repository` for the history, `sqlite` for the index, and `daemon` for long-running processes.
`launcher` and `broker` run in processes of their own.
"""
