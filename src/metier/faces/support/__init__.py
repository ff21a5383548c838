"""For people who report a fault: the file of `metier doctor --report`."""
