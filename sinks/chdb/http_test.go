package chdb

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ClickHouse/ch-go/compress"
	"github.com/klauspost/compress/zstd"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
	"github.com/llmtap/llmtap/sinks/chdb/httpd"
)

// do sends one request to s with query parameters, a body and changes to the request.
func do(t *testing.T, s *Server, params url.Values, body io.Reader, change ...func(*http.Request)) (*http.Response, string) {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, s.dsnOrigin()+"?"+params.Encode(), body))(t)
	req.Header.Set("X-ClickHouse-Key", s.config.Password)
	for _, c := range change {
		c(req)
	}
	tr := &http.Transport{DisableCompression: true, DisableKeepAlives: true}
	resp := must.Get(tr.RoundTrip(req))(t)
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(t)
	return resp, string(b)
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func TestAuthorization(t *testing.T) {
	s := server(t)
	f := func(status int, change ...func(*http.Request)) {
		t.Helper()
		resp, body := do(t, s, nil, strings.NewReader("SELECT 1"), change...)
		must.Equal(t, resp.StatusCode, status, "status: %s", body)
	}
	key := func(k string) func(*http.Request) { return header("X-ClickHouse-Key", k) }
	auth := func(user, password string) func(*http.Request) {
		return func(r *http.Request) { r.SetBasicAuth(user, password) }
	}
	f(200)
	f(200, key(""), auth("default", s.config.Password))
	f(200, key(""), func(r *http.Request) { r.URL.RawQuery = "user=default&password=" + s.config.Password })
	f(403, key(""))
	f(403, key("wrong"))
	f(403, key(s.config.Password+"x"))
	f(403, auth("default", "wrong"))
	f(403, auth("root", s.config.Password))
	// A request that a browser was tricked into sending.
	f(403, header("Origin", "https://example.org"))
	f(403, header("Sec-Fetch-Site", "cross-site"))
	f(403, func(r *http.Request) { r.Host = "example.org" })
	f(200, func(r *http.Request) { r.Host = "localhost:" + r.URL.Port() })
	// A liveness check requires no password.
	if resp, body := do(t, s, nil, nil, key(""), func(r *http.Request) { r.URL.Path = "/ping" }); resp.StatusCode != 200 || body != "Ok.\n" {
		t.Error(resp.StatusCode, body)
	}
}

// The user reader, whose DSN is in a file, may only read. His password stays when the server starts again.
func TestReader(t *testing.T) {
	s := server(t)
	file := must.Get(os.ReadFile(filepath.Join(s.config.Dir, "reader.dsn")))(t)
	dsn := must.Get(url.Parse(strings.TrimSpace(string(file))))(t)
	as := func(user string) func(string, int) {
		return func(statement string, status int) {
			t.Helper()
			resp, body := do(t, s, url.Values{"database": {Database}}, strings.NewReader(statement), func(r *http.Request) {
				r.Header.Del("X-ClickHouse-Key")
				password := s.config.Password
				if user == httpd.Reader {
					password, _ = dsn.User.Password()
				}
				r.SetBasicAuth(user, password)
			})
			must.Equal(t, resp.StatusCode, status, "%s: status: %s", statement, body)
		}
	}
	write, read := as(httpd.User), as(dsn.User.Username())
	write("CREATE TABLE read_only (a UInt8) ENGINE = MergeTree ORDER BY a", 200)
	for _, statement := range []string{
		"INSERT INTO read_only VALUES (1)", "INSERT INTO read_only FORMAT TSV\n1\n", "INSERT INTO read_only SELECT 1", "ALTER TABLE read_only DELETE WHERE 1",
		"OPTIMIZE TABLE read_only", "TRUNCATE TABLE read_only", "DROP TABLE read_only", "CREATE TABLE other (a UInt8) ENGINE = Memory", "KILL QUERY WHERE 1", "SYSTEM STOP MERGES",
	} {
		read(statement, 403)
	}
	read("SELECT count() = 0 FROM read_only", 200)
	read("SHOW TABLES", 200)
	read("DESCRIBE TABLE read_only", 200)
	write("DROP TABLE read_only", 200)

	must.Equal(t, must.Get(announceReader(s.config.Dir, *dsn))(t), s.config.ReaderPassword, "password after a restart")
}

// Statements that read or write outside of the tables are rejected.
func TestRejected(t *testing.T) {
	s := server(t)
	do(t, s, nil, strings.NewReader("CREATE TABLE default.rejected (a String) ENGINE = Memory"))
	code := func(want, sql string) {
		t.Helper()
		resp, body := do(t, s, nil, strings.NewReader(sql))
		must.Equal(t, resp.Header.Get("X-ClickHouse-Exception-Code"), want, "%s: code: %.300s", sql, body)
	}
	f := func(sql string) {
		t.Helper()
		code("497", sql)
	}
	f("SELECT 1 INTO OUTFILE '/tmp/llmtap-rejected'")
	f("SELECT 1 INTO/**/OUTFILE '/tmp/llmtap-rejected' TRUNCATE FORMAT CSV")
	f("INSERT INTO default.rejected FROM INFILE '/etc/passwd' FORMAT LineAsString")
	f("SELECT file('/etc/passwd')")
	f("SELECT `file`('/etc/passwd')")
	f("SELECT \"f\\x69le\"('/etc/passwd')")
	f("SELECT “file”('/etc/passwd')")
	f("SELECT * APPLY file FROM (SELECT '/etc/passwd')")
	f("SELECT * APPLY(file) FROM (SELECT '/etc/passwd')")
	f("INSERT INTO default.rejected VALUES (file('/etc/passwd'))")
	f("SELECT * FROM file('/etc/passwd', LineAsString)")
	code("701", "SELECT * FROM fileCluster('default', '/etc/passwd', LineAsString)") // the engine has no clusters
	f("SELECT * FROM url('http://127.0.0.1:1/', LineAsString)")
	f("SELECT * FROM remote('127.0.0.1:1', system.one)")
	f("SELECT * FROM s3('http://127.0.0.1:1/bucket/x', 'CSV', 'a String')")
	code("1", "SELECT * FROM executable('x', 'CSV', 'a String')") // only from a directory that is not writable
	f("SELECT * FROM mysql('127.0.0.1:1', 'a', 'b', 'c', 'd')")
	f("INSERT INTO FUNCTION file('x.csv', 'CSV', 'a String') VALUES ('x')")
	f("INSERT INTO FUNCTION url('http://127.0.0.1:1/', 'CSV', 'a String') SELECT 'x'")
	f("CREATE TABLE default.f1 (a String) ENGINE = File(CSV, '/tmp/llmtap-rejected')")
	f("CREATE TABLE default.f2 (a String) ENGINE = URL('http://127.0.0.1:1/', CSV)")
	code("36", "CREATE TABLE default.f3 (a String) ENGINE = FileLog('/etc', 'LineAsString')") // no directory is allowed
	f("CREATE DICTIONARY default.d (a String) PRIMARY KEY a SOURCE(FILE(PATH '/etc/passwd' FORMAT 'LineAsString')) LAYOUT(FLAT()) LIFETIME(0)")
	f("CREATE FUNCTION f AS x -> x")
	f("CREATE USER u")
	f("BACKUP TABLE default.rejected TO File('/tmp/llmtap-rejected')")
	f("SYSTEM SHUTDOWN")
	// The client reads a block at once, so a block beyond its limit must not be sent.
	limit := url.Values{"max_result_bytes": {"1000000"}, "default_format": {"Native"}}
	resp, body := do(t, s, limit, strings.NewReader("SELECT arrayJoin(range(1000000))"))
	must.Equal(t, resp.Header.Get("X-ClickHouse-Exception-Code"), "396", "a result of 8 MB: %d, %d bytes", resp.StatusCode, len(body))
	// GET changes nothing.
	get := func(r *http.Request) { r.Method = http.MethodGet }
	for _, sql := range []string{"DROP TABLE default.rejected", "INSERT INTO default.rejected VALUES ('x')", "INSERT INTO default.rejected FORMAT CSV"} {
		resp, body := do(t, s, url.Values{"query": {sql}}, nil, get)
		must.Equal(t, resp.Header.Get("X-ClickHouse-Exception-Code"), "164", "GET %s: %d %s", sql, resp.StatusCode, body)
	}
	_, body = do(t, s, url.Values{"query": {"SELECT count() FROM default.rejected"}}, nil, get)
	must.Equal(t, body, "0\n", "rows")
}

func TestFormats(t *testing.T) {
	s := server(t)
	f := func(sql string, params url.Values, want, contentType string, change ...func(*http.Request)) {
		t.Helper()
		resp, body := do(t, s, params, strings.NewReader(sql), change...)
		if resp.StatusCode != 200 || body != want || !strings.HasPrefix(resp.Header.Get("Content-Type"), contentType) {
			t.Errorf("%s: %d %q %q", sql, resp.StatusCode, body, resp.Header)
		}
	}
	const tsv = "text/tab-separated-values"
	f("SELECT 1, 'a'", nil, "1\ta\n", tsv)
	f("SELECT 1 AS a FORMAT JSONEachRow", nil, "{\"a\":1}\n", "application/x-ndjson")
	f("SELECT number FROM numbers(200000) FORMAT CSVWithNames", nil, "\"number\"\n"+numbers(200000), "text/csv") // one header
	f("SELECT number FROM numbers(200000)", url.Values{"default_format": {"CSV"}}, numbers(200000), "text/csv")
	f("SELECT 1", nil, "{\"1\":1}\n", "application/x-ndjson", header("X-ClickHouse-Format", "JSONEachRow"))
	f("SELECT {a:String}", url.Values{"param_a": {"x'y\\n"}}, "x\\'y\\n\n", tsv)
	f(" + 2", url.Values{"query": {"SELECT 1"}}, "3\n", tsv) // the body continues the query in the URL
	f("SELECT count() FROM x", url.Values{"query": {"WITH x AS (SELECT 1 UNION ALL SELECT 2)"}}, "2\n", tsv)
	f("SHOW DATABASES LIKE 'llmtap'", nil, "llmtap\n", tsv)
	f("SELECT currentDatabase()", url.Values{"database": {Database}}, "llmtap\n", tsv)
	f("EXPLAIN SYNTAX SELECT 1", nil, "SELECT 1\nFROM system.one\n", tsv)
	f("SELECT 1", nil, "1\n", tsv, header("Accept-Encoding", "identity, gzip;q=0"))
}

func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, i)
	}
	return b.String()
}

// Data is inserted in every encoding, complete and truncated at interesting offsets.
func TestBodies(t *testing.T) {
	s := server(t)
	do(t, s, nil, strings.NewReader("CREATE TABLE default.bodies (n UInt64) ENGINE = MergeTree ORDER BY n"))
	data := []byte(numbers(100000))
	var gz, zs, frames bytes.Buffer
	gw := gzip.NewWriter(&gz)
	_, _ = gw.Write(data)
	gw.Close()
	zw := must.Get(zstd.NewWriter(&zs))(t)
	_, _ = zw.Write(data)
	zw.Close()
	var lastFrame int
	cw := compress.NewWriter(compress.LevelZero, compress.LZ4)
	for part := data; len(part) > 0; {
		n := min(len(part), 100000)
		must.Do(t, cw.Compress(part[:n]))
		lastFrame = frames.Len()
		frames.Write(cw.Data)
		part = part[n:]
	}
	rows := func() string {
		_, n := do(t, s, nil, strings.NewReader("SELECT count() FROM default.bodies"))
		return strings.TrimSpace(n)
	}
	insert := url.Values{"query": {"INSERT INTO default.bodies FORMAT TSV"}}
	inFrames := url.Values{"query": insert["query"], "decompress": {"1"}}
	f := func(name string, params url.Values, encoding string, body []byte) {
		t.Helper()
		// A truncated body in a complete request: only the encoding reveals it.
		cuts := []int{len(body) - 1, len(body) / 2}
		if params.Has("decompress") {
			cuts = append(cuts, lastFrame+10, lastFrame+25) // inside and after the header of a frame
		}
		for _, cut := range cuts {
			if encoding == "" && !params.Has("decompress") {
				break // plain text looks complete anywhere
			}
			resp, answer := do(t, s, params, bytes.NewReader(body[:cut]), header("Content-Encoding", encoding))
			if resp.StatusCode == 200 || rows() != "0" {
				t.Fatalf("%s truncated at %d of %d: %d %s, %s rows", name, cut, len(body), resp.StatusCode, answer, rows())
			}
		}
		// An incomplete request: the connection ends before the body.
		sendIncomplete(t, s, params, encoding, body, true)
		sendIncomplete(t, s, params, encoding, body, false)
		if n := rows(); n != "0" {
			t.Fatalf("%s in an incomplete request: %s rows", name, n)
		}
		resp, answer := do(t, s, params, bytes.NewReader(body), header("Content-Encoding", encoding))
		if resp.StatusCode != 200 || rows() != "100000" || !strings.Contains(resp.Header.Get("X-ClickHouse-Summary"), `"written_rows":"100000"`) {
			t.Fatalf("%s: %d %s, %s rows, %s", name, resp.StatusCode, answer, rows(), resp.Header)
		}
		do(t, s, nil, strings.NewReader("TRUNCATE TABLE default.bodies"))
	}
	f("plain", insert, "", data)
	f("gzip", insert, "gzip", gz.Bytes())
	f("zstd", insert, "zstd", zs.Bytes())
	f("frames", inFrames, "", frames.Bytes())
	// A truncated and an invalid Native block.
	for _, body := range []string{"\x01\x05\x01n\x06UInt64\x00\x00\x00\x00\x00\x00\x00\x00\x01", "garbage"} {
		resp, _ := do(t, s, url.Values{"query": {"INSERT INTO default.bodies FORMAT Native"}}, strings.NewReader(body))
		if resp.StatusCode == 200 || rows() != "0" {
			t.Errorf("%q: %d, %s rows", body, resp.StatusCode, rows())
		}
	}
}

// sendIncomplete sends a body without its end and closes the connection.
func sendIncomplete(t *testing.T, s *Server, params url.Values, encoding string, body []byte, chunked bool) {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(context.Background(), "tcp", s.listener.Addr().String())
	must.Do(t, err)
	defer conn.Close()
	head := fmt.Sprintf("POST /?%s HTTP/1.1\r\nHost: localhost\r\nX-ClickHouse-Key: %s\r\nContent-Encoding: %s\r\n", params.Encode(), s.config.Password, encoding)
	if chunked {
		_, err = fmt.Fprintf(conn, "%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", head, len(body), body)
	} else {
		_, err = fmt.Fprintf(conn, "%sContent-Length: %d\r\n\r\n%s", head, len(body)+1, body)
	}
	must.Do(t, err)
	must.Do(t, conn.(*net.TCPConn).CloseWrite())
	_, _ = io.Copy(io.Discard, conn) // until the server closes it
}

// The engine ends comments and strings at the same place as package sqltext. Otherwise a rejected construct could be hidden.
func TestLexing(t *testing.T) {
	s := server(t)
	f := func(sql, want string) {
		t.Helper()
		_, body := do(t, s, nil, strings.NewReader(sql))
		must.Equal(t, body, want+"\n", "%s", sql)
	}
	f("SELECT 1 /* /* */ , 2 */", "1")
	f("SELECT 1 # , 2", "1")
	f("SELECT 1 #! , 2", "1")
	f("SELECT 1 --, 2", "1")
	f("SELECT $a$x;'y$a$", "x;\\'y")
	f("SELECT ‘a;b’", "a;b")
	f("SELECT 1 AS “a;b”", "1")
	f("SELECT 'a'';\\';b'", "a\\';\\';b")
	f("SELECT 1 AS `a``;b`", "1")
	f("SELECT\u00a01;", "1")
	f("SELECT 'it''s' || 'INTO OUTFILE' || 'file(x)'", "it\\'sINTO OUTFILEfile(x)")
}
