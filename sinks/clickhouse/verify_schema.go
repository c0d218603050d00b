package clickhouse

import (
	"context"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/llmtap/llmtap/sinks/sqltext"
)

// createDatabase creates the scratch database, which must not exist.
func (v *verifier) createDatabase(ctx context.Context) VerifyStep {
	name := sqltext.QuoteName(v.database)
	exists := failf(v.dropStatement()+", or choose another one with --database", "the database %s exists, perhaps since an earlier verification", v.database)
	found, err := v.names(ctx, "SELECT name FROM system.databases WHERE name = "+sqltext.QuoteString(v.database))
	if err != nil {
		return v.fail("look for the database "+v.database, err)
	}
	if len(found) > 0 {
		return exists
	}
	err = v.admin.Exec(ctx, "CREATE DATABASE "+name+v.topology().on())
	if code(err) == proto.ErrDatabaseAlreadyExists {
		return exists
	}
	v.created = true // on a cluster, it may exist on some servers despite an error
	if err != nil {
		return v.fail("create the database "+v.database, err)
	}
	return okf("%s created", v.database)
}

func (v *verifier) dropStatement() string {
	return "DROP DATABASE IF EXISTS " + sqltext.QuoteName(v.database) + v.topology().on() + " SYNC"
}

// drop drops the scratch database. SYNC also removes its replicas from Keeper.
func (v *verifier) drop(ctx context.Context) VerifyStep {
	if v.cfg.Keep {
		return okf("kept; %s removes it", v.dropStatement())
	}
	if err := v.admin.Exec(ctx, v.dropStatement()); err != nil {
		out := v.fail("drop the database "+v.database, err)
		out.Fix = v.dropStatement()
		return out
	}
	return okf("%s dropped", v.database)
}

// schema creates the tables and views.
func (v *verifier) schema(ctx context.Context) VerifyStep {
	s, err := v.openSink(ctx)
	if err != nil {
		return v.fail("create the tables", err)
	}
	v.sink = s
	n, err := s.number(ctx, "SELECT count() FROM system.tables WHERE database = currentDatabase()")
	if err != nil {
		return v.fail("count the tables", err)
	}
	return okf("%d tables and views", n)
}
