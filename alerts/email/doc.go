// Package email sends alert groups as e-mails over SMTP, with STARTTLS or TLS. An incident is one thread: the first mail when a group
// fires, and a reply to it for each change that people must know (another severity, cause or version, an acknowledgement, a silence, a
// reminder) and for the end. Numbers alone are not worth a mail.
//
//	Message-ID:  <llmtap.FIRST@DOMAIN>    the first mail           Message-ID:  <llmtap.ID@DOMAIN>     a later one
//	                                                               In-Reply-To: <llmtap.FIRST@DOMAIN>
//	Subject:     [llmtap] …                                        Subject:     Re: [llmtap] …
//
// The subject says what the incident is about and never changes, because Gmail begins another thread otherwise. So it contains neither the
// severity nor numbers; these are in the first lines of the body, which mailboxes preview, and in the headers X-Llmtap-Severity and
// X-Llmtap-Status, for filters.
//
// # When a mail is sent again
//
// A server that answers 4xx, or not at all, gets the state at that time later. A wrong password, sender or recipient, or a server without
// TLS, is tried again each minute, because somebody must mend it. A mail that the server rejects after its body is not repeated. If an answer
// did not arrive, the same mail has the same Message-ID, so most mailboxes show it once.
//
// # Why not a library
//
// github.com/wneessen/go-mail v0.8.1 was measured (2026-11): 9 packages and 1.2 MB of binary, with NTLM, S/MIME and DKIM. net/smtp
// of the standard library has the protocol; what remains are the method LOGIN and the headers.
package email
