"""Skills on a schedule: when it is time, what is due, the book that remembers, and durable runs."""
