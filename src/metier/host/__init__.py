"""The only package that touches the machine: files, the index's database, facts, locks, the watch."""
