"""6. act: Activation + Messages -> Events."""
