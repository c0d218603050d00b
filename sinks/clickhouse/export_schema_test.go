package clickhouse

import (
	"context"
	"errors"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// ExecAll runs statements in sequence; USE selects the database for those that follow.
func ExecAll(ctx context.Context, dsn string, stmts []string) error {
	cfg := Default()
	cfg.DSN = dsn
	database := ""
	for _, stmt := range stmts {
		if name, ok := cutUse(stmt); ok {
			database = name
			continue
		}
		conn, err := dial(ctx, cfg, database)
		if err != nil {
			return err
		}
		if err := errors.Join(conn.Exec(ctx, stmt), conn.Close()); err != nil {
			return errors.Join(errors.New(stmt), err)
		}
	}
	return nil
}

func cutUse(stmt string) (string, bool) {
	if len(stmt) < 6 || stmt[:5] != "USE `" {
		return "", false
	}
	return stmt[5 : len(stmt)-1], true
}

// Rewrite returns the statements that run stmt on a cluster.
func Rewrite(cluster, database, stmt string) ([]string, error) {
	return topology{cluster, database}.rewrite(stmt)
}

// DialEvenly is the dial strategy.
var DialEvenly = dialEvenly

// Addresses returns the addresses of the DSN.
func Addresses(dsn string) ([]string, error) {
	o, err := Config{DSN: dsn}.options()
	if err != nil {
		return nil, err
	}
	return o.Addr, nil
}

// RunAll runs statements on a server that returns errs in sequence.
func RunAll(ctx context.Context, stmts []string, errs []error) (ran []string, err error) {
	c := &fakeConn{errs: errs}
	err = (&Sink{conn: c}).runAll(ctx, "a test", stmts)
	return c.ran, err
}

type fakeConn struct {
	driver.Conn
	errs []error
	ran  []string
}

func (c *fakeConn) Exec(_ context.Context, stmt string, _ ...any) error {
	c.ran = append(c.ran, stmt)
	err := c.errs[0]
	c.errs = c.errs[1:]
	return err
}
