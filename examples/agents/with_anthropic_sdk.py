"""Skills in a loop of your own around Anthropic's SDK."""

import json
from typing import Any

import anthropic
import httpx2

import metier


def fake(request: httpx2.Request) -> httpx2.Response:
    """A page that answers like the service: first a call, then a text."""
    first = len(json.loads(request.content)["messages"]) == 1
    call = {"type": "tool_use", "id": "1", "name": "skill_use", "input": {"skill_name": "release-notes"}}
    message = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "fake",
        "content": [call if first else {"type": "text", "text": "I have read the instructions."}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    return httpx2.Response(200, json=message)


client = anthropic.Anthropic(api_key="none", http_client=httpx2.Client(transport=httpx2.MockTransport(fake)))

library = metier.open(".")
messages: list[Any] = [{"role": "user", "content": "Write the release notes."}]
while True:
    said = client.messages.create(
        model="claude-sonnet-4-5",
        max_tokens=1_000,
        system=library.catalog().text,
        tools=library.tools_for("anthropic"),
        messages=messages,
    )
    messages.append({"role": "assistant", "content": said.content})
    results = [library.handle(block) for block in said.content if block.type == "tool_use"]
    if not results:
        break
    messages.append({"role": "user", "content": results})

print(said.content[0].text)
assert "search is always fast now." in str(messages)
