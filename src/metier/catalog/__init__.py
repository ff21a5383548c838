"""4. catalog: Verdicts -> Catalog."""
