"""The tools an agent has besides the skill tools: files, commands, history, questions."""
