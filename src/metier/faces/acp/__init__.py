"""The agent for editors: `metier acp` speaks the Agent Client Protocol on standard input and output."""
