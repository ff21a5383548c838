"""The stages put together for one place: open() and Library."""
