// Refreshes the sections of a page, converts times, and copies texts. Every page works without it.
"use strict";

// The server shows times in the zone of this cookie.
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
const known = document.cookie.includes("llmtap_zone=" + encodeURIComponent(zone));
if (!known) {
	document.cookie = "llmtap_zone=" + encodeURIComponent(zone) + "; path=/; max-age=31536000; samesite=lax";
}

const sections = document.getElementById("sections");
const live = document.getElementById("live");

// say shows the state of the refresh in the footer.
function say(text) {
	if (live && live.textContent !== text) {
		live.textContent = text;
	}
}

// busy reports whether a refresh would disturb what the reader does.
function busy() {
	const at = document.activeElement;
	const selection = String(document.getSelection() || "");
	return selection !== "" || (at && sections.contains(at) && at.closest("form") !== null);
}

let loading = false, leaving = false;

// refresh replaces the sections by current ones. What is unfolded, focused or scrolled stays so.
async function refresh() {
	if (loading || !sections || busy() || document.hidden) {
		return;
	}
	loading = true;
	try {
		const answer = await fetch(location.href, {headers: {"Llmtap-Fragment": "1"}, redirect: "error"});
		if (answer.status === 401) {
			leaving = true;
			location.reload(); // the session has ended: to the login page, or to the provider and back
			return;
		}
		if (!answer.ok) {
			throw new Error("status " + answer.status);
		}
		const html = await answer.text();
		if (busy()) {
			return;
		}
		if (Boolean(sections.querySelector("[data-waiting]")) !== html.includes("data-waiting")) {
			leaving = true; // a second reload may hit the page behind the first one
			location.reload(); // before and after the first call: another page with another title
			return;
		}
		const unfolded = new Set();
		sections.querySelectorAll("details[open]").forEach((d) => unfolded.add(place(d)));
		const known = new Set([...sections.querySelectorAll("tbody tr a")].map((a) => a.href));
		const at = document.activeElement, focused = sections.contains(at) ? place(at) : "", seen = focused && visible(at);
		const top = scrollY === 0;
		sections.innerHTML = html; // from this server, which escapes all content
		ownViews();
		layOut(top ? 15 : Infinity); // at once: what is in sight must not move
		sections.querySelectorAll("details").forEach((d) => { d.open = d.open || unfolded.has(place(d)); });
		if (document.body.hasAttribute("data-tail")) {
			sections.querySelectorAll("tbody tr").forEach((row) => row.classList.toggle("new", !known.has(row.querySelector("a")?.href)));
		}
		if (focused) {
			const same = [...sections.querySelectorAll("a, button, summary, [tabindex]")].find((e) => place(e) === focused);
			if (same) {
				same.focus({preventScroll: true});
				if (seen && !visible(same)) { // what is above it has grown
					same.scrollIntoView({block: "nearest"});
				}
			}
		}
		if (document.body.hasAttribute("data-live")) {
			say("Live");
		}
	} catch (e) {
		say("Not live: llmtap does not answer");
	} finally {
		loading = leaving;
	}
}

// layOut has the browser lay out a number of the rows of a timeline, or of the messages of a request, that are not in sight, and then the
// others in idle time, so that searches, pictures of the whole page and the scroll bar know all of them.
function layOut(most) {
	const rows = [...document.querySelectorAll(":is(.timeline tbody tr:nth-child(n+60), .message:nth-child(n+20)):not(.laid)")];
	rows.slice(0, most).forEach((row) => row.classList.add("laid"));
	if (rows.length > most) {
		(window.requestIdleCallback || setTimeout)(() => layOut(most));
	}
}

// visible reports whether a part of e is in the window.
function visible(e) {
	const box = e.getBoundingClientRect();
	return box.bottom > 0 && box.top < innerHeight;
}

// place identifies an element across refreshes.
function place(e) {
	const section = e.closest("section");
	const label = e.getAttribute("href") || e.id || (e.querySelector("summary") || e).textContent.trim();
	return (section ? section.id : "") + " " + e.tagName + " " + label.replace(/\d+/g, "#");
}

// Reading a section's times in another zone takes one refresh, the first time.
if (!known && sections && zone !== "UTC") {
	refresh().then(() => {
		const footer = document.getElementById("zone");
		if (footer) {
			footer.textContent = "Times in " + zone;
		}
	});
}

if (document.body.hasAttribute("data-live") && sections) {
	const events = new EventSource("/live");
	events.addEventListener("open", () => say("Live"));
	events.addEventListener("refresh", refresh);
	events.addEventListener("error", () => say("Not live: reconnecting"));
	document.addEventListener("visibilitychange", refresh);
}

// A list that follows new calls.
if (document.body.hasAttribute("data-tail")) {
	setInterval(refresh, 2000);
}

// Parts of a page that are drawn late move the place that the URL names.
window.addEventListener("load", () => {
	const at = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
	if (at) {
		at.scrollIntoView({block: "center"});
	}
});

// A search that has found one id after its page had begun.
const found = document.querySelector("a[data-go]");
if (found) {
	location.replace(found.href);
}

// A button with data-copy copies the text of the element with that id, one with data-link the address of a page.
document.addEventListener("click", async (event) => {
	const button = event.target.closest("button[data-copy], button[data-link]");
	if (!button) {
		return;
	}
	const {copy, link} = button.dataset;
	const text = copy ? document.getElementById(copy).textContent : new URL(link, location.href).href;
	try {
		await navigator.clipboard.writeText(text);
		button.textContent = "Copied";
	} catch (e) {
		button.textContent = "Select the text and copy it";
	}
});

// The key / moves to the search.
document.addEventListener("keydown", (event) => {
	if (event.key === "/" && !event.ctrlKey && !event.metaKey && !/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
		event.preventDefault();
		document.querySelector(".search input").focus();
	}
});

// A field of the filter bar suggests the values that there are, with the number of their calls.
document.addEventListener("focusin", async (event) => {
	const name = event.target.dataset.suggest;
	const list = name && document.getElementById("values-" + name);
	if (!list || list.dataset.asked) {
		return;
	}
	list.dataset.asked = "yes";
	try {
		const answer = await fetch("/suggest/" + name + location.search);
		for (const [value, calls] of answer.ok ? await answer.json() : []) {
			list.append(new Option(calls.toLocaleString("en") + (calls === 1 ? " call" : " calls"), value));
		}
	} catch (e) {
		delete list.dataset.asked; // llmtap does not answer now
	}
});

// ownViews shows the views of this browser alone on the page of saved views.
function ownViews() {
	const own = document.getElementById("own-views");
	if (!own) {
		return;
	}
	const key = "llmtap_views", most = 100, item = document.getElementById("own-view").content;
	const list = own.querySelector("ul");
	const read = () => {
		try {
			const all = JSON.parse(localStorage.getItem(key));
			return Array.isArray(all) ? all.filter((v) => typeof v.name === "string" && /^\/(?![/\\])/.test(v.url)) : [];
		} catch (e) {
			return []; // not written by this page, or the browser stores nothing
		}
	};
	const draw = (all) => {
		list.replaceChildren(...all.map((view) => {
			const li = item.cloneNode(true).firstElementChild;
			li.querySelector("b").textContent = view.name;
			li.querySelector("a").href = li.querySelector("[data-link]").dataset.link = view.url;
			li.querySelector(".hidden").textContent = " " + view.name;
			li.querySelector("input").value = view.name;
			li.querySelector("form").addEventListener("submit", (event) => {
				event.preventDefault();
				add(li.querySelector("input").value.trim(), view.url, view.name);
			});
			li.querySelector("[data-own]").addEventListener("click", () => write(read().filter((v) => v.name !== view.name)));
			return li;
		}));
		own.hidden = all.length === 0;
	};
	const write = (all) => {
		try {
			localStorage.setItem(key, JSON.stringify(all.slice(0, most)));
		} catch (e) {
			say("This browser stores no views");
		}
		draw(read());
	};
	const add = (name, url, old) => write([...read().filter((v) => v.name !== name && v.name !== old), {name, url}].sort((a, b) => a.name.localeCompare(b.name)));
	const save = document.querySelector("[data-own=save]");
	if (save) {
		save.hidden = false;
		save.addEventListener("click", () => {
			const {view, url} = save.form.elements;
			if (view.reportValidity()) {
				add(view.value.trim(), url.value);
			}
		});
	}
	draw(read());
}

ownViews();
layOut(15);
