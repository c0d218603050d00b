package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// Statements that only a login with more rights may run.
var (
	writesOrLifts = []string{
		"INSERT INTO exchanges (service) VALUES ('x')", "DROP TABLE exchanges", "TRUNCATE TABLE exchanges",
		"ALTER TABLE exchanges DELETE WHERE 1",
		"CREATE TABLE x (a Int8) ENGINE = Memory", "CREATE USER x", "GRANT ALL ON *.* TO x", "SET readonly = 0", "SYSTEM SHUTDOWN",
		"KILL QUERY WHERE 1",
		"OPTIMIZE TABLE exchanges FINAL", "DETACH TABLE exchanges", "RENAME TABLE exchanges TO x", "USE system",
		"BACKUP TABLE exchanges TO Disk('x', 'y')",
		"SELECT 1; DROP TABLE exchanges", "/* SELECT */ DROP TABLE exchanges", "-- SELECT\nDROP TABLE exchanges",
		"(SELECT 1) UNION ALL DROP TABLE exchanges",
		"EXPLAIN SELECT 1; DROP TABLE exchanges", "WITH 1 AS x INSERT INTO exchanges SELECT x", "FROM exchanges INSERT",
		"CREATE FUNCTION x AS () -> 1",
		"SELECT * FROM exchanges SETTINGS readonly = 0", "SELECT 1 SETTINGS max_execution_time = 0",
		"SELECT 1 SETTINGS max_memory_usage = 0", "SELECT 1 SETTINGS max_threads = 99",
		"SELECT 1 SETTINGS max_result_bytes = 0", "SELECT addressToSymbol(1)", "SELECT demangle('x')",
		"SELECT sleep(1) SETTINGS function_sleep_max_microseconds_per_block = 0",
	}
	readsElsewhere = []string{
		"SELECT * FROM file('/etc/passwd', 'LineAsString')", "SELECT * FROM file ('/etc/passwd')",
		"SELECT * FROM file/**/('/etc/passwd', LineAsString)",
		"SELECT * FROM FILE('/etc/passwd')", "SELECT * FROM `file`('/etc/passwd')", "SELECT * FROM \"file\"('/etc/passwd')",
		"SELECT * FROM `fi\\x6ce`('/etc/passwd')",
		"SELECT file('/etc/passwd')", "DESCRIBE file('/etc/passwd')", "DESCRIBE TABLE url('CANARY')",
		"SELECT * FROM url('CANARY', 'RawBLOB')",
		"SELECT * FROM urlCluster('default', 'CANARY')", "WITH x AS (SELECT * FROM url('CANARY', LineAsString)) SELECT * FROM x",
		"FROM url('CANARY') SELECT *",
		"SELECT * FROM loop(url('CANARY', LineAsString)) LIMIT 1", "SELECT * FROM view(SELECT * FROM url('CANARY', LineAsString))",
		"SELECT * FROM (SELECT * FROM url('CANARY', LineAsString))", "EXPLAIN SELECT * FROM url('CANARY')",
		"SELECT * FROM remote('HOST', system.one)",
		"SELECT * FROM remoteSecure('HOST', system.one)", "SELECT * FROM s3('CANARY/x')",
		"SELECT * FROM mysql('HOST', 'a', 'b', 'c', 'd')",
		"SELECT * FROM postgresql('HOST', 'a', 'b', 'c', 'd')", "SELECT * FROM mongodb('HOST', 'a', 'b', 'c', 'd', 'x String')",
		"SELECT * FROM redis('HOST', 'key', 'key String')",
		"SELECT * FROM sqlite('/etc/passwd', 'x')", "SELECT * FROM jdbc('CANARY', 'x')", "SELECT * FROM odbc('x', 'y', 'z')",
		"SELECT * FROM hdfs('hdfs://HOST/x', 'RawBLOB')",
		"SELECT * FROM executable('id', 'LineAsString', 'x String')", "SELECT * FROM deltaLake('CANARY')",
		"SELECT * FROM iceberg('CANARY')",
		"SELECT * FROM exchanges INTO OUTFILE '/tmp/llmtap-attack'", "SELECT * FROM azureBlobStorage('CANARY', 'a', 'b')",
		"SELECT dictGet('x', 'y', 1)",
		"SELECT * FROM fuzzQuery('SELECT 1'), url('CANARY')", "SELECT * FROM filesystem('/etc')",
		"SELECT * FROM ytsaurus('CANARY','x','y','z String')",
	}
	// secretTables may contain logins, keys and statements.
	secretTables = []string{"users", "user_directories", "named_collections", "server_settings", "query_log", "text_log", "processes", "session_log", "grants", "quota_usage"}
)

// queryAttacks are statements that the API, MCP and the port of the embedded ClickHouse must not run.
var queryAttacks = []attack{
	{
		name: fmt.Sprintf("%d statements that write or lift limits", len(writesOrLifts)), listeners: []string{"http", "ui", "mcp"}, short: true,
		want: "all refused",
		run:  func(w *attackWorld, l string) string { return w.refused(l, writesOrLifts) },
	},
	{
		name: fmt.Sprintf("%d statements that read files, URLs or other servers", len(readsElsewhere)), listeners: []string{"http", "ui", "mcp"}, short: true,
		want: "all refused",
		run: func(w *attackWorld, l string) string {
			var all []string
			for _, s := range readsElsewhere {
				s = strings.ReplaceAll(s, "CANARY", w.canary.URL)
				all = append(all, strings.ReplaceAll(s, "HOST", strings.TrimPrefix(w.canary.URL, "http://")))
			}
			return w.refused(l, all)
		},
	},
	{
		name: "system tables with logins, keys and statements of others", listeners: []string{"http", "mcp"}, short: true,
		want: "no secret",
		run: func(w *attackWorld, l string) string {
			var all strings.Builder
			for _, c := range []*target{w.plain, w.secured} {
				dsn, _ := c.rows.dsn()
				password := regexp.MustCompile(`default:([^@]+)@`).FindStringSubmatch(dsn)[1]
				for _, table := range secretTables {
					_, text := w.statement(c, l, "SELECT * FROM system."+table+" LIMIT 1000")
					all.WriteString(text)
				}
				_, text := w.statement(c, l, "SHOW CREATE USER default")
				all.WriteString(text)
				for _, s := range []string{password, httpToken, uiToken, receiveToken, proxyToken, natsToken, serviceToken} {
					if strings.Contains(all.String(), s) {
						return "a secret in " + all.String()[max(0, strings.Index(all.String(), s)-100):]
					}
				}
			}
			return "no secret"
		},
	},
	{
		name: "a statement that needs much memory, much time or a large result", listeners: []string{"http"}, want: "stopped",
		run: func(w *attackWorld, l string) string {
			for _, s := range []string{
				"SELECT groupArray(number) FROM numbers(4000000000)", "SELECT repeat('x', 1000000) FROM numbers(1000)",
				"SELECT arrayJoin(range(100000000))",
			} {
				if ok, text := w.statement(w.plain, l, s); ok && len(text) > 2<<20 {
					return s + " has run"
				}
			}
			return "stopped"
		},
	},
	{
		name: "the port of the embedded ClickHouse without password, with wrong ones", listeners: []string{"clickhouse"}, short: true,
		want: "403|516|401",
		run: func(w *attackWorld, l string) string {
			var got []string
			for _, h := range []http.Header{
				{"Host": {"127.0.0.1"}},
				{"Host": {"127.0.0.1"}, "X-Clickhouse-User": {"default"}},
				{"Host": {"127.0.0.1"}, "X-Clickhouse-Key": {"default"}},
				{"Host": {"127.0.0.1"}, "Authorization": {"Basic ZGVmYXVsdDo="}},
				{"Host": {"127.0.0.1"}, "X-Clickhouse-User": {"admin"}},
			} {
				for _, path := range []string{"/?query=SELECT+1", "/?query=SELECT+1&user=default&password=", "/?query=DROP+TABLE+llmtap.exchanges", "/play", "/dashboard"} {
					got = append(got, w.plain.doAs(w.T, l, http.MethodPost, path, "", h).status())
				}
			}
			return distinct(got)
		},
	},
	{
		name: "MCP without a token", listeners: []string{"http", "ui"}, short: true, want: "401",
		run: func(w *attackWorld, l string) string {
			h := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
			return w.secured.doAs(w.T, l, http.MethodPost, "/mcp", toolCall("SELECT 1"), h).status()
		},
	},
	{
		name: "MCP called by a page of another site", listeners: []string{"http", "ui"}, short: true, want: "403",
		run: func(w *attackWorld, l string) string {
			return each([]http.Header{{"Origin": {"https://evil.example"}}, {"Host": {"evil.example"}}, {"Sec-Fetch-Site": {"cross-site"}}}, func(h http.Header) string {
				h["Content-Type"], h["Accept"] = []string{"application/json"}, []string{"application/json, text/event-stream"}
				return w.plain.doAs(w.T, l, http.MethodPost, "/mcp", toolCall("SELECT 1"), h).status()
			})
		},
	},
}

// refused runs statements with all rights of a client, and returns those that succeed.
func (w *attackWorld) refused(l string, statements []string) string {
	var ran []string
	for _, s := range statements {
		if ok, text := w.statement(w.secured, l, s); ok {
			ran = append(ran, s+": "+text[:min(len(text), 100)])
		}
	}
	if len(ran) > 0 {
		return "have run: " + strings.Join(ran, "; ")
	}
	return "all refused"
}

// statement runs a statement through the API of a listener, or the tool of a coding agent.
func (w *attackWorld) statement(c *target, l, sql string) (ok bool, text string) {
	if l != "mcp" {
		h := http.Header{"Content-Type": {"application/json"}}
		if c.token != nil {
			h["Authorization"] = c.token["http"]["Authorization"]
		}
		body := must.Get(json.Marshal(map[string]string{"sql": sql}))(w)
		r := c.doAs(w.T, l, http.MethodPost, "/api/query", string(body), h)
		if r.code != http.StatusOK && r.code != http.StatusBadRequest && r.code != http.StatusGatewayTimeout && r.code != http.StatusServiceUnavailable {
			w.Errorf("%s: %d %s", sql, r.code, r.body)
		}
		return r.code == http.StatusOK, r.body
	}
	h := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	r := c.do(w.T, "http", http.MethodPost, "/mcp?content=true", toolCall(sql), h)
	var answer struct {
		Result *struct {
			IsError bool `json:"isError"`
		} `json:"result"`
	}
	if err := json.Unmarshal([]byte(r.body), &answer); err != nil || answer.Result == nil {
		w.Errorf("%s: %d %s", sql, r.code, r.body)
		return false, ""
	}
	return !answer.Result.IsError, r.body
}

// toolCall returns a call of the tool sql.
func toolCall(sql string) string {
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": "sql", "arguments": map[string]string{"sql": sql}}})
	if err != nil {
		panic(err) // not a value that JSON lacks
	}
	return string(b)
}

var onUI = []string{"ui"}

// pageAttacks are those of the web pages.
var pageAttacks = []attack{
	{
		name: "scripts in labels, models, tools, texts and errors of calls, and in parameters of pages", listeners: onUI, short: true,
		want: "escaped, and a policy forbids scripts of others", run: scripts,
	},
	{
		name: "a form without its token, or with a wrong one", listeners: onUI, short: true, want: "403",
		run: func(w *attackWorld, l string) string {
			var got []string
			for _, path := range []string{"/silences", "/alerts/x/acknowledge", "/alerts/x/silence", "/silences/x/expire", "/problem/x/assign", "/problem/x/resolve", "/problem/x/ignore", "/problem/x/reopen", "/views", "/views/rename", "/views/delete", "/logout", "/login"} {
				for _, body := range []string{"", "form=", "form=wrong", "form=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"} {
					h := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
					got = append(got, w.plain.doAs(w.T, l, http.MethodPost, path, body, h).status())
				}
			}
			return distinct(got)
		},
	},
	{
		name: "decisions about problems without a token, with a wrong one, with that of a hook", listeners: []string{"http", "ui"}, short: true, want: "401",
		run: func(w *attackWorld, l string) string {
			return each([]string{"", "Bearer x", "Bearer " + serviceToken, "Bearer " + receiveToken}, func(token string) string {
				h := http.Header{"Content-Type": {"application/json"}, "Authorization": {token}}
				return w.secured.doAs(w.T, l, http.MethodPost, "/api/v1/problems/0123456789abcdef", `{"action": "resolve"}`, h).status()
			})
		},
	},
	{
		name: "decisions about problems: unknown ids, actions and fields, a note of 1 MB", listeners: []string{"http", "ui"}, short: true, want: "404, 400|400, 404",
		run: func(w *attackWorld, l string) string {
			var got []string
			for _, id := range []string{"0123456789abcdef", "..%2fsilence", "*", ">", strings.Repeat("a", 5000)} {
				for _, body := range []string{`{"action": "resolve"}`, `{"action": "delete"}`, `{"action": "assign", "key": "x"}`, `[]`, `{"action": "resolve", "note": "` + strings.Repeat("x", 1<<20) + `"}`} {
					h := http.Header{"Content-Type": {"application/json"}, "Llmtap-Actor": {"x"}}
					got = append(got, w.plain.doAs(w.T, l, http.MethodPost, "/api/v1/problems/"+id, body, h).status())
				}
			}
			return distinct(got)
		},
	},
	{
		name: "a forged, an expired and an empty session", listeners: onUI, short: true, want: "401",
		run: func(w *attackWorld, l string) string {
			return each([]string{"", "9999999999.", "9999999999.AAAA", "1.AAAA", "x", "9999999999", strings.Repeat("9", 5000) + ".x"}, func(cookie string) string {
				return w.secured.doAs(w.T, l, http.MethodGet, "/alerts", "", http.Header{"Cookie": {"llmtap_session=" + cookie}}).status()
			})
		},
	},
	{
		name: "login leads to another site (next)", listeners: onUI, short: true, want: "stays on the site",
		run: func(w *attackWorld, l string) string {
			for _, next := range []string{
				"https://evil.example", "//evil.example", "/%5Cevil.example", "/%09/evil.example", "%2F%2Fevil.example",
				"javascript:alert(1)", "/%0d%0aSet-Cookie:x=y", "///evil.example",
				"https:evil.example", "/%2F/evil.example", "%5C%5Cevil.example", "http:///evil.example", "/.//evil.example",
			} {
				r := w.plain.doAs(w.T, l, http.MethodGet, "/login?next="+next, "", nil)
				if to := r.header.Get("Location"); !regexp.MustCompile(`^/([^/\\]|$)`).MatchString(to) || r.header.Get("Set-Cookie") != "" {
					return next + " leads to " + to
				}
			}
			return "stays on the site"
		},
	},
	{
		name: "5 wrong tokens at once", listeners: onUI, short: true,
		want: "one per second; the right one is accepted at once, in a cookie for HTTPS only",
		run:  bruteForce,
	},
}

// logInAttacks are those of log-in at a provider and of tokens of machines. The provider does not answer.
var logInAttacks = []attack{
	{
		name: "the end of a log-in at the provider that was not begun: without a state, with a forged one, with a forged cookie, with an error", listeners: onUI, short: true, want: "403",
		run: func(w *attackWorld, l string) string {
			forged := base64.RawURLEncoding.EncodeToString([]byte(`{"secret":"x","next":"https://evil.example","expires":9999999999}`)) + "."
			return each([]string{"", "?code=x", "?code=x&state=", "?code=x&state=x", "?error=access_denied&state=x", "?code=x&state=x&iss=https://evil.example"}, func(query string) string {
				cookie := "llmtap_login_2d711642=" + forged + "; llmtap_login_e3b0c442=" + forged // of the states x and ""
				r := w.secured.doAs(w.T, l, http.MethodGet, "/login/callback"+query, "", http.Header{"Cookie": {cookie}, "Accept": {"text/html"}})
				if strings.Contains(fmt.Sprint(r.header["Set-Cookie"]), "llmtap_session") || r.header.Get("Location") != "" {
					return fmt.Sprint(query, " starts a session: ", r.header)
				}
				return r.status()
			})
		},
	},
	{
		name: "a log-in at the provider leads to another site (next)", listeners: onUI, short: true, want: "502, to no site",
		run: func(w *attackWorld, l string) string {
			return each([]string{"https://evil.example", "//evil.example", "/%5Cevil.example"}, func(next string) string {
				r := w.secured.doAs(w.T, l, http.MethodGet, "/login/start?next="+next, "", http.Header{"Accept": {"text/html"}})
				if r.header.Get("Location") != "" || strings.Contains(r.body, "evil") {
					return r.header.Get("Location") + r.body
				}
				return r.status() + ", to no site"
			})
		},
	},
	{
		name: "a forged session of the provider", listeners: onUI, short: true, want: "401",
		run: func(w *attackWorld, l string) string {
			return each([]string{"s-", "s-x", "s-" + strings.Repeat("A", 43), "s-" + strings.Repeat("A", 5000), "s-*", "s->"}, func(cookie string) string {
				return w.secured.doAs(w.T, l, http.MethodGet, "/alerts", "", http.Header{"Cookie": {"llmtap_session=" + cookie}}).status()
			})
		},
	},
	{
		name: "a forged token of a machine, also where no token is required", listeners: []string{"http", "ui"}, short: true, want: "401",
		run: func(w *attackWorld, l string) string {
			var got []string
			for _, c := range []*target{w.plain, w.secured} {
				for _, token := range []string{"llmtap_", "llmtap_x", "llmtap_" + strings.Repeat("A", 43), "llmtap_" + strings.Repeat("A", 5000)} {
					got = append(got, c.doAs(w.T, l, http.MethodGet, getPath[l], "", http.Header{"Authorization": {"Bearer " + token}}).status())
				}
			}
			return distinct(got)
		},
	},
	{
		name: "tokens of machines are listed, made and revoked without a token, with a wrong one, with that of a hook", listeners: []string{"http", "ui"}, short: true, want: "401",
		run: func(w *attackWorld, l string) string {
			return each([]string{"", "Bearer x", "Bearer " + serviceToken, "Bearer " + receiveToken}, func(token string) string {
				h := http.Header{"Content-Type": {"application/json"}, "Authorization": {token}}
				return distinct([]string{
					w.secured.doAs(w.T, l, http.MethodGet, "/api/v1/tokens", "", h).status(),
					w.secured.doAs(w.T, l, http.MethodPost, "/api/v1/tokens", `{"name": "x", "role": "admin", "expires": "2030-01-01T00:00:00Z"}`, h).status(),
					w.secured.doAs(w.T, l, http.MethodDelete, "/api/v1/tokens/x", "", h).status(),
				})
			})
		},
	},
	{
		name: "the audit is read without a token, with a wrong one, with that of a hook", listeners: []string{"ui"}, short: true, want: "401",
		run: func(w *attackWorld, l string) string {
			return each([]string{"", "Bearer x", "Bearer " + serviceToken, "Bearer " + receiveToken}, func(token string) string {
				h := http.Header{"Authorization": {token}}
				return distinct([]string{w.secured.doAs(w.T, l, http.MethodGet, "/audit", "", h).status(), w.secured.doAs(w.T, l, http.MethodGet, "/audit?who=ann&format=csv", "", h).status()})
			})
		},
	},
	{
		name: "tokens of machines: names of other keys, unknown roles, without an end, of 1 MB", listeners: []string{"http", "ui"}, short: true, want: "400",
		run: func(w *attackWorld, l string) string {
			return each([]string{
				`{"name": "a.b", "role": "viewer", "expires": "2030-01-01T00:00:00Z"}`, `{"name": "*", "role": "viewer", "expires": "2030-01-01T00:00:00Z"}`, `{"name": "../x", "role": "viewer", "expires": "2030-01-01T00:00:00Z"}`,
				`{"name": "a", "role": "root", "expires": "2030-01-01T00:00:00Z"}`, `{"name": "a", "role": "public", "expires": "2030-01-01T00:00:00Z"}`, `{"name": "a", "role": "admin"}`, `[]`,
				`{"name": "` + strings.Repeat("x", 1<<20) + `"}`,
			}, func(body string) string {
				return w.plain.doAs(w.T, l, http.MethodPost, "/api/v1/tokens", body, http.Header{"Content-Type": {"application/json"}}).status()
			})
		},
	},
	{
		name: "a token of a team: SQL, numbers of all services, a call, a silence and a problem of another team, a silence of all services, a token without a team", listeners: []string{"http", "ui"}, short: true,
		want: "400, 403, 404", run: teamAttack,
	},
}

// teamAttack asks with the token of a team, which has no calls, for what others have.
func teamAttack(w *attackWorld, l string) string {
	if err := w.secured.callIsStored(w.T); err != nil {
		return err.Error()
	}
	res, err := w.secured.rows.query(w.Context(), "SELECT max(exchange_id) FROM exchanges WHERE service = 'after'")
	if err != nil {
		return err.Error()
	}
	call := fmt.Sprint(res.Rows[0][0])
	admin := http.Header{"Content-Type": {"application/json"}, "Authorization": w.secured.token["http"]["Authorization"]}
	var token struct{ Token string }
	made := w.secured.doAs(w.T, "http", http.MethodPost, "/api/v1/tokens", fmt.Sprintf(`{"name": "nobody-%s", "role": "responder", "teams": ["nobody"], "expires": %q}`, l, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)), admin)
	must.Do(w, json.Unmarshal([]byte(made.body), &token))
	silence := func(matcher string) string {
		return `{"matchers":[` + matcher + `],"startsAt":"2026-01-01T00:00:00Z","endsAt":"2099-01-01T00:00:00Z","createdBy":"x","comment":"c"}`
	}
	var added struct{ SilenceID string }
	must.Do(w, json.Unmarshal([]byte(w.secured.doAs(w.T, "http", http.MethodPost, "/api/v2/silences", silence(`{"name":"service","value":"after","isEqual":true}`), admin).body), &added))
	all := [][3]string{
		{http.MethodPost, "/api/query", `{"sql":"SELECT * FROM exchanges"}`},
		{http.MethodPost, "/api/query", `{"sql":"SELECT * FROM exchanges","stored":{"name":"none"}}`},
		{http.MethodGet, "/api/v2/silence/" + added.SilenceID},
		{http.MethodDelete, "/api/v2/silence/" + added.SilenceID},
		{http.MethodPost, "/api/v2/silences", silence(`{"name":"service","value":".*","isRegex":true,"isEqual":true}`)},
		{http.MethodPost, "/api/v2/silences", silence(`{"name":"severity","value":"none","isEqual":false}`)},
		{http.MethodGet, "/api/v1/problems/0123456789abcdef"},
		{http.MethodPost, "/api/v1/tokens", `{"name":"more","role":"viewer","expires":"2099-01-01T00:00:00Z"}`},
	}
	if l == "ui" {
		all = append(all, [3]string{http.MethodGet, "/exchange/" + call + "/raw?part=request"}, [3]string{http.MethodGet, "/audit"})
	} else {
		all = append(all, [3]string{http.MethodGet, "/metrics"}, [3]string{http.MethodGet, "/metrics/fleet"})
	}
	var got []string
	for _, r := range all {
		answer := w.secured.doAs(w.T, l, r[0], r[1], r[2], http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + token.Token}, "Llmtap-Actor": {"x"}})
		if answer.code < http.StatusBadRequest || strings.Contains(answer.body, "hello") {
			return fmt.Sprint(r, " has worked: ", answer.body)
		}
		got = append(got, answer.status())
	}
	slices.Sort(got)
	return distinct(got)
}

// bruteForce logs in with wrong tokens, and once with the right one.
func bruteForce(w *attackWorld, l string) string {
	page := w.secured.doAs(w.T, l, http.MethodGet, "/login", "", http.Header{"Accept": {"text/html"}})
	form := regexp.MustCompile(`name="form" value="([^"]+)"`).FindStringSubmatch(page.body)
	if form == nil {
		return "no form in " + page.body
	}
	login := func(token string) reply {
		h := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
		return w.secured.doAs(w.T, l, http.MethodPost, "/login", "form="+form[1]+"&token="+token, h)
	}
	start := time.Now()
	wrong := make(chan reply, 5)
	for i := range cap(wrong) {
		go func() { wrong <- login(fmt.Sprint("wrong-", i)) }()
	}
	time.Sleep(200 * time.Millisecond)
	right := login(uiToken)
	if len(wrong) == cap(wrong) {
		return "the right token waits for the wrong ones"
	}
	cookie := right.header.Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "Secure", "SameSite=Lax"} {
		if right.code != http.StatusSeeOther || !strings.Contains(cookie, want) {
			return fmt.Sprintf("%d, cookie %s", right.code, cookie)
		}
	}
	for range cap(wrong) {
		if r := <-wrong; r.code != http.StatusForbidden {
			return "a wrong token: " + r.status()
		}
	}
	if took := time.Since(start); took < 4*time.Second {
		return fmt.Sprintf("5 in %v", took)
	}
	return "one per second; the right one is accepted at once, in a cookie for HTTPS only"
}

// script is text that runs in a page which does not escape it, in elements, attributes and scripts.
const script = `'"></script></title></textarea><img src=x onerror=alert(1)><script>alert(1)</script>{{7*7}}`

// scripts stores script wherever a caller can, and readsElsewhere all pages.
func scripts(w *attackWorld, l string) string {
	q := must.Get(json.Marshal(script))(w)
	s := string(q)
	call := `"exchange":` + s + `,"service":` + s + `,"service_version":` + s + `,"environment":` + s + `,"agent":` + s + `,"stage":` + s + `,"conversation":` + s + `,"run":` + s +
		`,"user":` + s + `,"sdk":` + s + `,"attrs":{"tenant":` + s + `}`
	events := `[{"kind":"request",` + call + `,"url":"https://api.openai.com/v1/chat/completions","method":"POST","body":{"model":` + s + `,
		"tools":[{"type":"function","function":{"name":` + s + `}}],
		"messages":[{"role":"user","content":` + s + `},{"role":"assistant","content":null,"tool_calls":[{"id":` + s + `,
		"type":"function","function":{"name":` + s + `,"arguments":` + s + `}}]},
		{"role":"tool","tool_call_id":"other","content":` + s + `}]}},
		{"kind":"response",` + call + `,"status":400,"error":` + s + `,"provider_request_id":` + s + `,"body":{"error":{"message":` + s + `,"type":` + s + `,"code":` + s + `}}}]`
	r := w.plain.doAs(w.T, "receive", http.MethodPost, "/v1/events", events, http.Header{"Content-Type": {"application/json"}})
	if r.code != http.StatusOK {
		return r.status() + r.body
	}
	must.Wait(w.T, "the call is stored", func() bool {
		res, err := w.plain.rows.query(w.Context(), "SELECT count() FROM exchanges_final WHERE status = 400 AND position(service, 'onerror') > 0")
		return err == nil && res.Rows[0][0].(uint64) > 0
	})
	escaped := strings.ReplaceAll(strings.ReplaceAll(url.QueryEscape(script), "+", "%20"), "%2F", "%252F")
	path := url.QueryEscape(script)
	found := 0
	for _, page := range []string{
		"/", "/problems", "/alerts", "/versions", "/calls", "/providers", "/explore", "/explore/causes", "/explore/failures", "/search?q=" + path,
		"/?service=" + path, "/?stage=" + path + "&since=" + path,
		"/conversation/" + escaped, "/exchange/" + escaped, "/exchange/" + escaped + "/raw",
		"/incident?service=" + path + "&stage=" + path + "&why=" + path, "/incident/" + escaped, "/problem/" + escaped, "/problems?service=" + path + "&state=" + path,
		"/versions?service=" + path, "/alerts/backtest?rule=" + path, "/explore/sql?sql=" + path, "/explore/affected?attr=" + path,
		"/explore/" + escaped, "/" + escaped, "/login?next=/" + path, "/audit", "/audit?who=" + path + "&what=" + path + "&target=" + path,
		"/conversation/" + strings.ReplaceAll(path, "+", "%20"), "/exchange/" + strings.ReplaceAll(path, "+", "%20"),
		"/exchange/" + strings.ReplaceAll(path, "+", "%20") + "/raw",
	} {
		r := w.plain.doAs(w.T, l, http.MethodGet, page, "", http.Header{"Accept": {"text/html"}})
		html := strings.HasPrefix(r.header.Get("Content-Type"), "text/html")
		if html && (strings.Contains(r.body, "<img src=x") || strings.Contains(r.body, "<script>alert") || strings.Contains(r.body, `'"></script>`)) {
			return page + " contains the script"
		}
		if r.header.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(r.header.Get("Content-Security-Policy"), "script-src 'self'") {
			return fmt.Sprintf("%s lacks a policy: %d %v", page, r.code, r.header)
		}
		if strings.Contains(r.body, "onerror") {
			found++
		}
	}
	if found < 8 {
		return fmt.Sprintf("only %d pages show the text", found)
	}
	return "escaped, and a policy forbids scripts of others"
}
