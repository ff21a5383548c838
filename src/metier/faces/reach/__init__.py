"""Commands about which skills count, and which agents see them."""
