"""For people who keep skills in a repository: `metier schema`, `metier ci`, and the formats of `metier lint`."""
