"""5. activate: Catalog + Call -> Activation."""
