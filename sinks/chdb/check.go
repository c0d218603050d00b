package chdb

import (
	"errors"
	"fmt"
	"strings"

	"github.com/llmtap/llmtap/sinks/chdb/engine"
)

// checkEngine runs what package httpd uses of the library, because a library of another version may have the same symbols and
// behave differently. A library that it refuses, or that crashes, is not used.
func checkEngine(connect func() (*engine.Conn, error)) error {
	for _, c := range []struct {
		name string
		run  func(*engine.Conn) error
	}{
		{"a Go panic leaves the engine alone", checkSignals},
		{"statement with a parameter", checkQuery},
		{"stream", checkStream},
		{"insert", checkInsert},
		{"failing statement", checkFailure},
		{"effect of statements", checkClassify},
	} {
		conn, err := connect()
		if err != nil {
			return fmt.Errorf("check libchdb: %w", err)
		}
		err = c.run(conn)
		conn.Close()
		if err != nil {
			return fmt.Errorf("check libchdb: %s: %w", c.name, err)
		}
	}
	return nil
}

// checkSignals dereferences nil: an engine whose signal handlers could not be disabled shuts down.
func checkSignals(c *engine.Conn) error {
	func() {
		defer func() { _ = recover() }()
		_ = strings.ToUpper(*func() *string { return nil }())
	}()
	return expect(c, "SELECT 1", nil, "1\n")
}

func checkQuery(c *engine.Conn) error {
	return expect(c, "SELECT {a:String}, {b:UInt8} + 1", map[string]string{"a": "x'y", "b": "6"}, "x\\'y\t7\n")
}

// expect returns an error if the output of sql is not want.
func expect(c *engine.Conn, sql string, params map[string]string, want string) error {
	return c.Query(sql, "TabSeparated", params, func(out []byte, _ engine.Stats) error {
		if string(out) != want {
			return fmt.Errorf("%q, want %q", out, want)
		}
		return nil
	})
}

func checkStream(c *engine.Conn) error {
	const rows = 200_000 // several chunks
	s, err := c.Stream("SELECT number FROM numbers(200000)", "TabSeparated", nil)
	if err != nil {
		return err
	}
	defer s.Close()
	lines, counted := 0, uint64(0)
	for more := true; more; {
		if more, err = s.Next(func(chunk []byte, st engine.Stats) error {
			lines += strings.Count(string(chunk), "\n")
			counted += st.ResultRows
			return nil
		}); err != nil {
			return err
		}
	}
	if lines != rows || counted != rows {
		return fmt.Errorf("%d lines, %d rows, want %d", lines, counted, rows)
	}
	return nil
}

func checkInsert(c *engine.Conn) error {
	if err := c.Exec("CREATE TEMPORARY TABLE llmtap_check (n UInt64)"); err != nil {
		return err
	}
	in, err := c.Insert("INSERT INTO llmtap_check", "TabSeparated", nil)
	if err != nil {
		return err
	}
	defer in.Close()
	for _, part := range []string{"1\n2", "0\n300\n"} {
		if _, err := in.Write([]byte(part)); err != nil {
			return err
		}
	}
	if _, err := in.Commit(); err != nil {
		return err
	}
	return expect(c, "SELECT sum(n) FROM llmtap_check", nil, "321\n")
}

func checkFailure(c *engine.Conn) error {
	err := c.Exec("SELECT * FROM llmtap_missing")
	if e, ok := errors.AsType[*engine.Error](err); !ok || e.Code != 60 {
		return errors.Join(errors.New("want an exception with code 60"), err)
	}
	return nil
}

// checkClassify checks the classes that package httpd trusts.
func checkClassify(c *engine.Conn) error {
	for sql, want := range map[string]engine.Analysis{
		"SELECT 1; DROP TABLE t":                        {Statements: 2, Class: engine.Mutating},
		"SELECT 1":                                      {Statements: 1, Class: engine.ReadOnly},
		"INSERT INTO t SELECT 1":                        {Statements: 1, Class: engine.Mutating},
		"SELECT 1 INTO OUTFILE '/llmtap'":               {Statements: 1, Class: engine.Control},
		"INSERT INTO FUNCTION file('/llmtap') SELECT 1": {Statements: 1, Class: engine.Control},
		"CREATE USER u":                                 {Statements: 1, Class: engine.MutatingGlobal},
		"SYSTEM SHUTDOWN":                               {Statements: 1, Class: engine.Control},
	} {
		got, err := c.Classify(sql)
		if err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("%s: %+v, want %+v", sql, got, want)
		}
	}
	return nil
}
