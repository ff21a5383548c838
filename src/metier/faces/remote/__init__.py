"""Commands that ask registries: search for skills, and audit the installed ones."""
