package clickhouse

import (
	"context"
	"fmt"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/llmtap/llmtap/sinks/sqltext"
)

// createDatabase creates the scratch database, which must not exist.
func (v *verifier) createDatabase(ctx context.Context) outcome {
	name := sqltext.QuoteName(v.result.Database)
	exists := failf(v.dropStatement()+", or choose another one with --database", "the database %s exists, perhaps since an earlier verification", v.result.Database)
	if missing, _, err := v.missing(ctx, dropPrivileges, name+".*"); err != nil {
		return v.fail("read the grants of "+v.userName(), err)
	} else if len(missing) > 0 { // otherwise it would be left behind
		return failf(fmt.Sprintf("GRANT %s ON %s.* TO %s", list(missing), name, v.userName()), "user %s may not drop the database %s again", v.userName(), v.result.Database)
	}
	found, err := v.names(ctx, "SELECT name FROM system.databases WHERE name = "+sqltext.QuoteString(v.result.Database))
	if err != nil {
		return v.fail("look for the database "+v.result.Database, err)
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
		return v.fail("create the database "+v.result.Database, err)
	}
	return okf("%s created", v.result.Database)
}

func (v *verifier) dropStatement() string {
	return "DROP DATABASE IF EXISTS " + sqltext.QuoteName(v.result.Database) + v.topology().on() + " SYNC"
}

// drop drops the scratch database. SYNC also removes its replicas from Keeper.
func (v *verifier) drop(ctx context.Context) outcome {
	switch {
	case !v.created:
		return skipf("no database was created")
	case v.cfg.Keep:
		return okf("kept; %s removes it", v.dropStatement())
	}
	if err := v.admin.Exec(ctx, v.dropStatement()); err != nil {
		out := v.fail("drop the database "+v.result.Database, err)
		out.fix = v.dropStatement()
		return out
	}
	return okf("%s dropped", v.result.Database)
}

// schema creates the tables and views.
func (v *verifier) schema(ctx context.Context) outcome {
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

// existingTables compares the tables of llmtap on the server, if there are any, to those that this release has just created.
func (v *verifier) existingTables(ctx context.Context) outcome {
	database := v.options.Auth.Database
	if database == "" {
		database = "default"
	}
	// Columns of a newer release are no difference.
	const columns = `(SELECT table, name AS what, type AS value FROM system.columns WHERE database = %[1]s
		UNION ALL SELECT name, 'engine', engine FROM system.tables WHERE database = %[1]s
		UNION ALL SELECT name, 'ORDER BY', sorting_key FROM system.tables WHERE database = %[1]s
		UNION ALL SELECT name, 'PARTITION BY', partition_key FROM system.tables WHERE database = %[1]s)`
	theirs, ours := fmt.Sprintf(columns, sqltext.QuoteString(database)), fmt.Sprintf(columns, "currentDatabase()")
	n, err := v.sink.number(ctx, "SELECT uniqExact(table) FROM "+theirs+" WHERE table IN (SELECT table FROM "+ours+")")
	if err != nil {
		return v.fail("read the tables in "+database, err)
	}
	if n == 0 {
		return skipf("the database %s has no tables of llmtap", database)
	}
	different, err := v.sink.strings(ctx, `SELECT o.table || ': ' || o.what || ' is ' || if(t.value = '', 'missing', t.value) || ', not ' || if(o.value = '', 'empty', o.value)
		FROM `+ours+` AS o LEFT JOIN `+theirs+` AS t USING (table, what)
		WHERE t.value != o.value AND o.table IN (SELECT table FROM `+theirs+`) ORDER BY o.table, o.what`)
	if err != nil {
		return v.fail("compare the tables in "+database, err)
	}
	if len(different) > 0 {
		shown := different[:min(len(different), 3)]
		text := list(shown)
		if more := len(different) - len(shown); more > 0 {
			text += fmt.Sprintf(", and %d more", more)
		}
		return failf("undo the change, apply migrations with llmtap schema migrate, or use an empty database", "%s differs: %s", database, text)
	}
	return okf("%d tables and views in %s have the columns and keys of this release", n, database)
}
