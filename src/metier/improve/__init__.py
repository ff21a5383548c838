"""8. improve: Traces -> Proposals."""
