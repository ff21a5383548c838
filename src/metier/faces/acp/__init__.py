"""The agent for editors: `metier acp` serves the Agent Client Protocol on standard input and output.

`server` (`serve`) is the entry; `agent` answers the editor's requests, `updates` translates events for it.
"""
