package statement

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"

	"github.com/llmtap/llmtap/sinks/sqltext"
)

func TestParse(t *testing.T) {
	f := func(sql string, want Statement) {
		t.Helper()
		must.Agree(t, cmp.Diff(want, Parse(sql)), sql)
	}
	// The kind.
	f("", Statement{Kind: Empty})
	f(" -- nothing\n/* here /* nested */ */ # too", Statement{Kind: Empty})
	f("SELECT 1", Statement{Kind: Select})
	f("/* a */ with x as (select 1) select * from x", Statement{Kind: Select})
	f("(SELECT 1) UNION ALL (SELECT 2)", Statement{Kind: Select})
	f("FROM t SELECT a", Statement{Kind: Select})
	f("SHOW TABLES", Statement{})
	f("CREATE TABLE t (a String) ENGINE = Memory", Statement{})
	f("'unclosed", Statement{})

	// The output format is the last FORMAT that ends the statement.
	f("SELECT 1 FORMAT JSON", Statement{Kind: Select, Format: "JSON"})
	f("SELECT 1 format CSV;", Statement{Kind: Select, Format: "CSV"})
	f("SELECT 1 FORMAT CSV SETTINGS max_threads = 1", Statement{Kind: Select, Format: "CSV"})
	f("SELECT 1 FORMAT TSV -- FORMAT JSON", Statement{Kind: Select, Format: "TSV"})
	f("SELECT 'a FORMAT JSON'", Statement{Kind: Select})
	f("SELECT format FROM t", Statement{Kind: Select})
	f("SELECT format('{}', x) FROM t", Statement{Kind: Select})
	f("SELECT $a$ FORMAT JSON $a$", Statement{Kind: Select})
	f("SHOW TABLES FORMAT JSONEachRow", Statement{Format: "JSONEachRow"})

	// Several statements.
	f("SELECT 1;", Statement{Kind: Select})
	f("SELECT 1; ; -- end", Statement{Kind: Select})
	f("SELECT 1; DROP TABLE t", Statement{Kind: Select, Several: true})
	f("SELECT ';' AS a", Statement{Kind: Select})
	f(`SELECT 'it''s \'; x'`, Statement{Kind: Select})

	// INSERT: head, format, data.
	f("INSERT INTO t (a) FORMAT Native", Statement{Kind: Insert, Head: "INSERT INTO t (a) ", Format: "Native"})
	f("insert into db.`t x` format JSONEachRow;", Statement{Kind: Insert, Head: "insert into db.`t x` ", Format: "JSONEachRow"})
	f("INSERT INTO t FORMAT CSV\n1;2\n", Statement{Kind: Insert, Head: "INSERT INTO t ", Format: "CSV", Data: "1;2\n"})
	f("INSERT INTO t FORMAT LineAsString \t\r\n file('x'); y", Statement{Kind: Insert, Head: "INSERT INTO t ", Format: "LineAsString", Data: " file('x'); y"})
	f("INSERT INTO t VALUES (1)", Statement{Kind: Insert, Head: "INSERT INTO t ", Format: "Values", Data: " (1)"})
	f("INSERT INTO t VALUES (1); DROP TABLE t", Statement{Kind: Insert, Head: "INSERT INTO t ", Format: "Values", Data: " (1); DROP TABLE t", Several: true})
	f("INSERT INTO t VALUES;", Statement{Kind: Insert, Head: "INSERT INTO t ", Format: "Values"})
	f("INSERT INTO t (format, `values`) SETTINGS async_insert=0 FORMAT Native", Statement{Kind: Insert, Head: "INSERT INTO t (format, `values`) SETTINGS async_insert=0 ", Format: "Native"})
	f("INSERT INTO format VALUES (1)", Statement{Kind: Insert, Head: "INSERT INTO format ", Format: "Values", Data: " (1)"})
	f("INSERT INTO TABLE values.format FORMAT TSV", Statement{Kind: Insert, Head: "INSERT INTO TABLE values.format ", Format: "TSV"})
	f("/* x */ INSERT INTO t -- FORMAT CSV\n FORMAT TSV", Statement{Kind: Insert, Head: "/* x */ INSERT INTO t -- FORMAT CSV\n ", Format: "TSV"})
	f("INSERT INTO t", Statement{Kind: Insert, Head: "INSERT INTO t"})
	f("INSERT INTO t;", Statement{Kind: Insert, Head: "INSERT INTO t;"})
	f("INSERT INTO t; DROP TABLE t FORMAT CSV", Statement{Kind: Insert, Head: "INSERT INTO t; DROP TABLE t FORMAT CSV", Several: true})
	f("INSERT INTO t SELECT 1 FORMAT CSV", Statement{Kind: Insert, Head: "INSERT INTO t SELECT 1 FORMAT CSV", FromQuery: true})
	f("INSERT INTO t (a) WITH 1 AS x SELECT x", Statement{Kind: Insert, Head: "INSERT INTO t (a) WITH 1 AS x SELECT x", FromQuery: true})
	f("INSERT INTO t (SELECT 1)", Statement{Kind: Insert, Head: "INSERT INTO t (SELECT 1)", FromQuery: true})
}

func TestRejected(t *testing.T) {
	f := func(sql, want string) {
		t.Helper()
		must.Equal(t, Parse(sql).Rejected, want, "%s: rejected", sql)
	}
	f("SELECT 1 INTO OUTFILE '/tmp/x'", "INTO OUTFILE")
	f("SELECT 1 into/**/outfile '/tmp/x' FORMAT CSV", "INTO OUTFILE")
	f("INSERT INTO t SELECT 1 INTO OUTFILE 'x'", "INTO OUTFILE")
	f("INSERT INTO t FROM INFILE '/etc/passwd' FORMAT LineAsString", "FROM INFILE")
	f("INSERT INTO t (a) FROM -- x\n INFILE '/etc/passwd' SETTINGS a=1 FORMAT LineAsString", "FROM INFILE")
	f("SELECT file('/etc/passwd')", "the function file")
	f("SELECT `file` /* x */ ('/etc/passwd')", "the function file")
	f("SELECT `fil\\x65`('/etc/passwd')", "the function file")
	f("SELECT “file”('/etc/passwd')", "the function file")
	f("SELECT * APPLY file FROM (SELECT '/etc/passwd')", "the function file")
	f("SELECT * APPLY(file) FROM (SELECT '/etc/passwd')", "the function file")
	f("SELECT * FROM file('x')", "the function file")
	f("INSERT INTO FUNCTION file('x') VALUES (1)", "the function file")
	f("INSERT INTO t VALUES (file('/etc/passwd'))", "the function file")
	f("INSERT INTO t FORMAT Values (file('/etc/passwd'))", "the function file")
	f("INSERT INTO t SELECT file('/etc/passwd')", "the function file")
	f("CREATE FUNCTION f AS x -> file(x)", "the function file")
	// These are accepted.
	f("SELECT 'file(x) INTO OUTFILE', file, t.file FROM t WHERE body LIKE '%file(%' -- file(", "")
	f("INSERT INTO outfile VALUES (1)", "")
	f("INSERT INTO t (file, a) FORMAT Native", "")
	f("INSERT INTO t FORMAT JSONEachRow {\"a\": \"file(x) FROM INFILE\"}", "")
}

// No input panics, all parts are parts of the text, and the scanner always makes progress.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"SELECT 1 FORMAT JSON", "INSERT INTO t (a) FORMAT CSV\n1", "INSERT INTO t VALUES ('a''b\\'')", "$a$b$a$", "/* /* */",
		"‘a’ “b”", "INSERT INTO", "insert into a.b.c (x) select 1; select 2", "`", "'\\", "#!x\n--", "INSERT . . VALUES",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, sql string) {
		st := Parse(sql)
		if !strings.HasPrefix(sql, st.Head) || !strings.HasSuffix(sql, st.Data) || !strings.Contains(sql, st.Format) && st.Format != "Values" {
			t.Fatalf("Statement has parts that are not in the text: %+v", st)
		}
		s := sqltext.Scanner{SQL: sql}
		for pos := -1; ; {
			tok := s.Next()
			if tok.Kind == sqltext.End {
				break
			}
			if tok.Pos <= pos || tok.Text == "" || tok.End() > len(sql) {
				t.Fatalf("token %+v after %d", tok, pos)
			}
			pos = tok.Pos
		}
	})
}
