/*
Package browsertest drives Chromium in tests of the web pages.

	test ── Page.Open, Click, Eval ──> Chromium (headless, no network but loopback)
	     <── Page.Problems: console, exceptions, requests ──┘
	     <── Page.Audit: violations that axe-core finds

It speaks the DevTools protocol over the pipe that --remote-debugging-pipe opens: one JSON object per message, which needs
neither a port nor a library. Chromium is an installed one, or else the one in an npm package of an exact version and checksum.
axe-core always comes from npm. Both are cached.
*/
package browsertest
