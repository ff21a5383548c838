"""Who may use the page: one-time tokens in the address become cookies, and each form carries a token of its own.

A token is a file that only the user can read, named by its digest, and is deleted when it is used.  So `metier web`,
started a second time, can let a browser into the page that already runs; and what a browser's history or the list of
processes keeps of an address is worth nothing afterwards.
"""

from __future__ import annotations

import hmac
from collections import OrderedDict
from hashlib import sha256
from secrets import token_hex, token_urlsafe
from threading import Lock

from ...host import fs, paths, trees
from ...host.facts import now_ns

TOKEN_SECONDS = 600.0
"""How long an address that was printed can be opened."""
_MOST_COOKIES = 32
"""Browsers that are let in at a time; the one that was used longest ago has to come again."""


def keys_folder(state: str) -> str:
    return f"{state}/web"


def mint_token(state: str) -> str:
    """A new one-time token for the page of this home, whichever process serves it."""
    folder = keys_folder(state)
    fs.make_folder(folder)
    token = token_urlsafe(32)
    fs.write_text(f"{folder}/{_token_name(token)}", f"{now_ns()}\n")
    return token


def _token_name(token: str) -> str:
    # The digest, not the token: who can list the folder still can't enter.
    return f"token-{sha256(token.encode('utf-8', 'surrogatepass')).hexdigest()}"


def forget_tokens(state: str) -> None:
    """Delete tokens that nobody used."""
    folder = keys_folder(state)
    for name in paths.list_names(folder).files if paths.is_folder(folder) else ():
        if name.startswith("token-"):
            trees.remove_file(f"{folder}/{name}")


class AccessKeys:
    """The cookies of one server.  They end with it: a page of an earlier one has to be opened again."""

    def __init__(self, state: str) -> None:
        self._state = state
        # Cookies don't know ports: under 127.0.0.1 every other local server would get ours.  Browsers lead all names
        # under `localhost` to this machine, and nobody else has a page under this one.
        self.host_name = f"{token_hex(8)}.localhost"
        self._secret = token_urlsafe(32).encode()
        self._cookies: OrderedDict[str, None] = OrderedDict()
        # Pages are answered on several threads.
        self._lock = Lock()

    def redeem(self, token: str) -> str | None:
        """The cookie that a token is exchanged for, once; None for a token that is wrong, used or too old."""
        with self._lock:
            # However many were wrong before: nobody guesses 256 bits, and a limit would only keep the user out.
            path = f"{keys_folder(self._state)}/{_token_name(token)}"
            written = (paths.read_text_file(path) or "").strip() if token else ""
            if not written.isdigit() or now_ns() - int(written) > TOKEN_SECONDS * 1e9:
                return None
            trees.remove_file(path)
            cookie = token_urlsafe(32)
            self._cookies[cookie] = None
            while len(self._cookies) > _MOST_COOKIES:
                self._cookies.popitem(last=False)
            return cookie

    def knows(self, cookie: str) -> bool:
        """Whether this server gave out that cookie."""
        with self._lock:
            # Each in constant time: how long a comparison takes must not tell how much of a guess is right.
            known = [held for held in self._cookies if hmac.compare_digest(held.encode(), cookie.encode())]
            for held in known:
                self._cookies.move_to_end(held)
            return bool(known)

    def form_token(self, cookie: str) -> str:
        """What every form of a browser carries: another site can send a form, but can't read this."""
        return hmac.new(self._secret, cookie.encode(), sha256).hexdigest()

    def is_form_token(self, cookie: str, token: str) -> bool:
        return hmac.compare_digest(self.form_token(cookie).encode(), token.encode("utf-8", "surrogatepass"))
