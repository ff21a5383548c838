"""Skills from elsewhere: a reference is fetched, inspected, placed whole, and written down in a lock."""
