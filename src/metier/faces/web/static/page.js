// What a page gains with JavaScript: copying, keys, and what is live.  Everything else works without it.
"use strict";
(() => {
  const inField = (element) => element.closest("input, textarea, select, [contenteditable]") !== null;

  const offerCopy = (root) => {
    for (const button of root.querySelectorAll("[data-copy]")) {
      button.hidden = false;
    }
  };
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy], [data-keys]");
    if (!button) return;
    if (button.hasAttribute("data-keys")) {
      document.getElementById("keys").showModal();
      return;
    }
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  document.addEventListener("htmx:afterSwap", () => offerCopy(document));

  let pending = false;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) {
      const field = event.target.closest("[data-submit]");
      if (field && event.key === "Enter") field.form.requestSubmit();
      return;
    }
    if (inField(event.target)) return;
    if (pending) {
      pending = false;
      const link = [...document.querySelectorAll("[data-key]")].find((each) => each.dataset.key === event.key);
      if (link) link.click();
    } else if (event.key === "g") {
      pending = true;
      setTimeout(() => { pending = false; }, 1500);
    } else if (event.key === "/") {
      const field = document.querySelector("[data-search]");
      event.preventDefault();
      if (field) field.focus();
      else location.href = "/skills";
    } else if (event.key === "?") {
      document.getElementById("keys").showModal();
    }
  });

  document.addEventListener("change", (event) => {
    const pick = event.target.closest("[data-pick]");
    if (!pick || !pick.value) return;
    const field = document.getElementById(pick.dataset.pick);
    field.value = pick.value + field.value.replace(/^\/\S+\s*/, "");
    pick.value = "";
    field.focus();
  });

  // The server escapes everything in an item; the pieces of a reply are text and stay text.
  const follow = (list) => {
    const source = new EventSource(list.dataset.stream);
    let piece = null;
    const near = () => window.innerHeight + window.scrollY > document.body.scrollHeight - 200;
    const keepDown = (was) => { if (was) window.scrollTo(0, document.body.scrollHeight); };
    source.addEventListener("item", (event) => {
      const was = near();
      if (piece) piece.remove();
      piece = null;
      const html = JSON.parse(event.data);
      const isEcho = list.hasAttribute("data-reload") && html.includes('class="heard') && list.querySelector(".heard:last-child");
      if (!isEcho) list.insertAdjacentHTML("beforeend", html);
      keepDown(was);
    });
    source.addEventListener("piece", (event) => {
      const was = near();
      if (!piece) {
        piece = document.createElement("li");
        piece.className = "replied piece";
        list.append(piece);
      }
      piece.append(JSON.parse(event.data));
      keepDown(was);
    });
    for (const kind of ["question", "end"]) {
      source.addEventListener(kind, () => {
        source.close();
        location.reload();
      });
    }
    // Refused, as when too many are open: the page itself still tells how far it is.
    source.onerror = () => { if (source.readyState === EventSource.CLOSED) setTimeout(() => location.reload(), 2000); };
  };

  offerCopy(document);
  for (const button of document.querySelectorAll("[data-keys]")) button.hidden = false;
  const list = document.querySelector("[data-stream]");
  if (list) {
    if (list.hasAttribute("data-reload")) {
      // The running turn is sent whole: what the journal has of it already is not shown twice.
      const heard = list.querySelectorAll(".heard");
      const last = heard[heard.length - 1];
      while (last && last.nextElementSibling) last.nextElementSibling.remove();
    }
    follow(list);
    if (list.hasAttribute("data-reload")) window.scrollTo(0, document.body.scrollHeight);
  }
})();
