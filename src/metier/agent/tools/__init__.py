"""The tools an agent has besides the skill tools: files, commands, questions, history.

`workspace` reads and writes files, `commands` runs programs, `history` asks the user and rolls skills back.
"""
