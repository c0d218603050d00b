package explain

import (
	"bytes"
	"regexp"
	"strconv"

	"github.com/llmtap/llmtap/analyzer/cause"
)

const (
	window  = 4 << 10 // size of a text that cause.Classify reads completely
	overlap = 512     // bytes in which a window searches for a line end; without one, the overlap of two windows
	maxRead = 1 << 20 // bytes read from the end of a text
)

// relevantPart returns the part of a long text that states a cause: a body states it at the start, a log or a traceback at
// the end. If no part states a cause, it returns the whole text.
func relevantPart(in cause.Input) []byte {
	text := withoutFrames(in.Text)
	if len(text) <= window {
		return text
	}
	states := func(part []byte) bool {
		in.Text = part
		c := cause.Classify(in)
		return (c.Known == cause.Stated || c.Known == cause.Guessed) && c.StatedBy != "" && c.StatedBy != "status"
	}
	head := text[:window]
	if n := bytes.LastIndexByte(head[window-overlap:], '\n'); n >= 0 {
		head = head[:window-overlap+n+1]
	}
	if states(head) {
		return head
	}
	for end := len(text); end > len(text)-maxRead; {
		start := max(0, end-window)
		line := bytes.IndexByte(text[start:start+overlap], '\n')
		if start > 0 && line >= 0 {
			start += line + 1
		}
		if states(text[start:end]) {
			return text[start:end]
		}
		if start == 0 {
			break
		}
		if end = start; line < 0 {
			end += overlap
		}
	}
	return text
}

// frame matches a stack frame of Python, JavaScript, Java or .NET.
var frame = regexp.MustCompile(`^\s+(?:File ".*", line \d+|at (?:.*:\d+:\d+\)?|.*\(.*:\d+\)(?: ~?\[.*\])?|(?:[\w$]+\.)+[^\s(]+\(.*)$)`)

// withoutFrames removes stack frames, because their code may contain the wording of any error.
func withoutFrames(text []byte) []byte {
	if !bytes.Contains(text, []byte("\n  ")) {
		return text
	}
	var out []byte
	inFrame, removed := false, false
	for line := range bytes.Lines(text) {
		body := bytes.TrimRight(line, "\r\n")
		switch indent := len(body) - len(bytes.TrimLeft(body, " \t")); {
		case frame.Match(body[:min(len(body), 1024)]):
			inFrame, removed = true, true
		case inFrame && (indent >= 4 || len(body) == 0): // a line of code and the marks below it
		default:
			inFrame = false
			out = append(out, line...)
		}
	}
	if !removed {
		return text
	}
	return out
}

// statusPattern matches the HTTP status in a text. A number alone is not enough, nor is an index such as messages[404].
var statusPattern = regexp.MustCompile(`(?i)(?:error code|状态码|(?:client|server) error|status[ _]?code(?: of| is| was)?|http[ _]?(?:status|error|code)|"?code["']?|http/\d(?:\.\d)?|\bhttp|status)["']?\s*[:：=(]?\s*["']?([45]\d\d)\b` +
	`|(?:^\W*|(?:error|exception)\W{1,3})([45]\d\d)\b(?:\s+[{"<]|\s+status|\s+[a-z_]+:|\s*[:-]|\s+(?-i:[A-Z]))` +
	`|(?:^|[^\w.\]])[\[【]([45]\d\d)[\]】]` +
	`|<(?:title|h1)>\s*(?:error )?([45]\d\d)\b` +
	`|\bresponse ([45]\d\d)\b|\b([45]\d\d) status code|\b([45]\d\d)(?: https?://|, message=)|\b([45]\d\d)\)? (?-i:Bad Request|Unauthorized|Payment Required|Forbidden|Not Found|Method Not Allowed|Payload Too Large|Unprocessable (?:Entity|Content)|Too Many Requests|Internal Server Error|Bad Gateway|Service Unavailable|Gateway Time-?out)\b`)

// noAnswer matches the errors of a client that received no answer: of its connection, of the names and certificates before it, of
// its time-outs, and of the streams that broke.
var noAnswer = regexp.MustCompile(`(?i)connection (?:error|refused|reset|aborted|closed|lost)|connection (?:was )?(?:dropped|terminated)|connection attempts failed|client connection lost|` +
	`closed (?:the )?connection|other side closed|server_? ?disconnected|remote(?:protocolerror|disconnected)|socket (?:hang up|was closed)|websocket closed|broken pipe|proxy connect aborted|` +
	`(?:failed|unable|could not|couldn't) (?:to )?(?:connect|resolve host)|(?:unable to|cannot|could not) reach|no route to host|network is unreachable|(?:transport|network) error|networkerror when|` +
	`error sending request|client error \((?:connect|sendrequest)\)|fetch failed|failed to fetch(?:\W*$|[.:;,)"'])|(?:ollama|server) is not running|` +
	`no such host|name or service not known|getaddrinfo|dns (?:lookup|error)|\b(?:econn(?:refused|reset|aborted)|enotfound|etimedout|eai_again|epipe)\b|und_err_|unknownhost|no such host is known|actively refused|cannot connect to host|internet connection appears|typo in the url|\berr_(?:connection|cert|network|name|timed|ssl|internet)|` +
	`certificate verify failed|x509: |self[- ]signed certificate|verify the first certificate|issuer certificate|certification path|wrong_version_number|ssl ?handshake|tls handshake|secure tls connection|proxy authentication required|access-control-allow-origin|cors (?:policy|error)|` +
	`connect(?:ion)? ?timeout|read ?timeout|timed out|\b(?:socket|api|asyncio)?\.?timeout(?:error|exception)\b|timeout exceeded|timeout while|idle timeout|deadline exceeded|i/o timeout|not respond in time|no response (?:from|within) |` +
	`context canceled|request (?:was )?(?:aborted|cancell?ed)|operation was aborted|task was cancell?ed|` +
	`premature close|ended prematurely|stream ended without (?:producing|sending|message|response|a response)|stream (?:disconnected|closed) before|not closed cleanly|\bgoaway\b|chunked read|incompleteread|clientpayloaderror|payload is not completed|` +
	`unexpected eof|": eof\W*$|i/o error on|eofexception|^\W*(?:error:|typeerror:)?\s*(?:eof|terminated|load failed)\W*$`)

// broken precedes what a server or a client said when a stream ended early.
var broken = regexp.MustCompile(`(?i)stream disconnected before completion:\s+(?:response\.failed event received\s+)?\b`)

// answer matches the errors that a server stated in an answer, whatever words of noAnswer are in them.
var answer = regexp.MustCompile(`^\W*["'](?:error|type|code|message|detail)["']\W*:\s*[^\st]|\(\w+Exception\) when calling the |\berror["']?\s*:\s*\{`)

// findStatus returns the HTTP status in a text, or 0 if the text says that the client received no answer. Otherwise it
// returns 400, which just means a failure.
func findStatus(text []byte) int {
	head := text[:min(len(text), window)]
	if m := statusPattern.FindSubmatch(head); m != nil {
		for _, digits := range m[1:] {
			if n, err := strconv.Atoi(string(digits)); err == nil {
				return n
			}
		}
	}
	if m := broken.FindIndex(head); m != nil {
		head = head[m[1]:]
	}
	if noAnswer.Match(head) && !answer.Match(head) {
		return 0
	}
	return 400
}

// refusal matches the words of which every error has one, at least.
var refusal = regexp.MustCompile(`(?i)error|exception|traceback|fail|refuse|reject|denied|forbidden|unauthori|invalid|unsupported|not (?:found|supported|allowed|valid)|` +
	`cannot|can't|could not|unable|must|exceed|too (?:many|large|long|short)|timed out|missing|required|abort|panic|fatal|blocked|insufficient|unavailable|overloaded|reset|violat|illegal|malformed|unexpected|block_?reason|input should be`)

// success matches a successful HTTP status in a log.
var success = regexp.MustCompile(`HTTP/\d(?:\.\d)?['"]?,? 2\d\d\b`)

// mayRefuse reports whether a text without its requests and answers may state an error.
func mayRefuse(text []byte) bool {
	return statusPattern.Match(text) || noAnswer.Match(text) || refusal.Match(text)
}
