"""Skills inside other agent frameworks: one module for each, imported only by its users.

`pydantic_ai` (`SkillsToolset`), `langchain` (`SkillsMiddleware`, `skill_tools`), `openai_agents` (`AgentSkills`), and
`skills_ref` with the functions of the reference library. Nothing in metier imports them.
"""
