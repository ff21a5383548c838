"""7. record: Events -> Traces."""
