"""metier inside what people already use: one module for each framework, imported only when it is asked for."""
