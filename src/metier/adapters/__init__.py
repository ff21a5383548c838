"""metier inside what people already use: one module for each framework, imported only when it is asked for.

`pydantic_ai` (`SkillsToolset`), `langchain` (`SkillsMiddleware`, `skill_tools`), `openai_agents` (`AgentSkills`), and
`skills_ref` with the functions of the reference library.  Nothing in metier imports them.
"""
