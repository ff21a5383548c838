"""Commands in a skill's body: read as a shell reads them, so that arguments stay data."""
