"""6. agent: Activation + Messages -> Events."""
