package clickhouse

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/llmtap/llmtap/sinks/sqltext"
)

// A replica is a server of a cluster.
type replica struct {
	Shard   uint32 `ch:"shard_num"`
	Replica uint32 `ch:"replica_num"`
	Host    string `ch:"host_name"`
	Port    uint16 `ch:"port"`
}

func (r replica) String() string { return fmt.Sprintf("%s:%d", r.Host, r.Port) }

// checkCluster checks that the cluster exists, that all of its servers answer and reach Keeper, and that their macros agree with
// the shards.
func (v *verifier) checkCluster(ctx context.Context) outcome {
	if v.cfg.Cluster == "" {
		return skipf("one server; --cluster NAME verifies a cluster")
	}
	name := v.cfg.Cluster
	macros, err := v.macros(ctx, "system.macros")
	if err != nil {
		return v.fail("read the macros", err)
	}
	for macro, value := range macros[1] {
		name = strings.ReplaceAll(name, "{"+macro+"}", value)
	}
	v.cluster = name
	if err := v.admin.Select(ctx, &v.replicas, "SELECT shard_num, replica_num, host_name, port FROM system.clusters WHERE cluster = ? ORDER BY shard_num, replica_num", name); err != nil {
		return v.fail("read system.clusters", err)
	}
	if len(v.replicas) == 0 {
		known, err := v.names(ctx, "SELECT DISTINCT cluster FROM system.clusters ORDER BY cluster")
		if err != nil {
			return v.fail("read system.clusters", err)
		}
		return failf("correct --cluster, or define the cluster in remote_servers", "cluster %s does not exist; this server knows: %s", name, cmp.Or(list(known), "none"))
	}
	v.result.Shards, v.result.Replicas = int(v.replicas[len(v.replicas)-1].Shard), len(v.replicas)
	v.rows = max(v.rows, verifyRowsPerShard*v.result.Shards)
	if macros, err = v.macros(ctx, v.everywhere("system", "macros")); err != nil {
		return v.fail("read the macros of all servers", err)
	}
	if problem := v.wrongMacros(macros); problem != "" {
		return failf("define the macros shard, the same on all servers of a shard, and replica, different on each of them, and restart the servers", "%s", problem)
	}
	if _, err := v.names(ctx, "SELECT toString(count()) FROM "+v.everywhere("system", "zookeeper")+" WHERE path = '/'"); err != nil {
		return v.fail("read Keeper from all servers", err)
	}
	text := fmt.Sprintf("%s: %s on %s, all with Keeper and macros", name, plural(v.result.Shards, "shard"), plural(v.result.Replicas, "server"))
	if off, err := v.withoutInternalReplication(ctx); err != nil {
		return v.fail("read system.clusters", err)
	} else if off {
		return warnf("set internal_replication to true in remote_servers", "%s; internal_replication is off, so that each row is sent to every server and stored twice", text)
	}
	return okf("%s", text)
}

// everywhere returns a table function that reads a table from every server, each of which has its own _shard_num.
func (v *verifier) everywhere(database, table string) string {
	return fmt.Sprintf("clusterAllReplicas(%s, %s, %s)", sqltext.QuoteString(v.cluster), sqltext.QuoteString(database), sqltext.QuoteString(table))
}

// macros returns the macros in source by the number of the server.
func (v *verifier) macros(ctx context.Context, source string) (map[int]map[string]string, error) {
	number := "toUInt32(1)"
	if source != "system.macros" {
		number = "_shard_num"
	}
	var rows []struct {
		Server uint32 `ch:"server"`
		Macro  string `ch:"macro"`
		Value  string `ch:"substitution"`
	}
	if err := v.admin.Select(ctx, &rows, "SELECT "+number+" AS server, macro, substitution FROM "+source); err != nil {
		return nil, err
	}
	macros := map[int]map[string]string{}
	for _, r := range rows {
		if macros[int(r.Server)] == nil {
			macros[int(r.Server)] = map[string]string{}
		}
		macros[int(r.Server)][r.Macro] = r.Value
	}
	return macros, nil
}

// wrongMacros returns what is wrong with the macros of the servers, or "".
func (v *verifier) wrongMacros(macros map[int]map[string]string) string {
	shards := map[string]uint32{}  // number of the shard by macro
	servers := map[string]string{} // server by path of its replica
	for i, r := range v.replicas {
		shard, name := macros[i+1]["shard"], macros[i+1]["replica"]
		switch {
		case shard == "" || name == "":
			return fmt.Sprintf("%s has no macro shard or replica", r)
		case shards[shard] != 0 && shards[shard] != r.Shard:
			return fmt.Sprintf("%s has the macro shard = %s, as servers of shard %d do", r, shard, shards[shard])
		case servers[shard+"/"+name] != "":
			return fmt.Sprintf("%s has the macros shard = %s and replica = %s, as %s does", r, shard, name, servers[shard+"/"+name])
		}
		shards[shard], servers[shard+"/"+name] = r.Shard, r.String()
	}
	if len(shards) != v.result.Shards {
		return fmt.Sprintf("the servers have %d values of the macro shard for %d shards", len(shards), v.result.Shards)
	}
	return ""
}

// withoutInternalReplication reports whether a shard with several servers has no internal_replication. Older versions of
// ClickHouse cannot tell.
func (v *verifier) withoutInternalReplication(ctx context.Context) (bool, error) {
	columns, err := v.names(ctx, "SELECT name FROM system.columns WHERE database = 'system' AND table = 'clusters' AND name = 'internal_replication'")
	if err != nil || len(columns) == 0 {
		return false, err
	}
	off, err := v.names(ctx, "SELECT toString(shard_num) FROM system.clusters WHERE cluster = {cluster:String} AND internal_replication = 0 GROUP BY shard_num HAVING count() > 1",
		clickhouse.Named("cluster", v.cluster))
	return len(off) > 0, err
}

// shards checks that all versions of a row are on the same shard, and that each shard has rows.
func (v *verifier) shards(ctx context.Context) outcome {
	for _, t := range tables {
		key, _, err := v.keys(ctx, t)
		if err != nil {
			return v.fail("read the sort key of "+t.Name(), err)
		}
		n, err := v.sink.number(ctx, "SELECT count() FROM (SELECT 1 FROM "+t.Name()+" GROUP BY "+key+" HAVING uniqExact(_shard_num) > 1)")
		if err != nil {
			return v.fail("read the shards of "+t.Name(), err)
		}
		if n > 0 {
			return failf("insert only through the Distributed tables, and use an empty database", "%s: %d rows have versions on several shards", t.Name(), n)
		}
	}
	counts, err := v.sink.strings(ctx, "SELECT toString(uniqExact(exchange_id)) FROM exchanges GROUP BY _shard_num ORDER BY _shard_num")
	if err != nil {
		return v.fail("count the rows of the shards", err)
	}
	text := fmt.Sprintf("all versions of each row are on one shard; exchanges by shard: %s", list(counts))
	if len(counts) < v.result.Shards {
		return warnf("check the weights of the shards in remote_servers: a shard with weight 0 stores nothing", "%s: %d of %d shards have rows", text, len(counts), v.result.Shards)
	}
	return okf("%s", text)
}

var versionArgument = regexp.MustCompile(`ReplacingMergeTree\((?:.*, )?(\w+)\)`)

// keys returns the sort key of t and its version, which is 0 if t has none.
func (v *verifier) keys(ctx context.Context, t *table) (key, version string, err error) {
	var engine string
	if err := v.sink.conn.QueryRow(ctx, "SELECT sorting_key, engine_full FROM system.tables WHERE database = currentDatabase() AND name = ?", v.topology().local(t.Name())).Scan(&key, &engine); err != nil {
		return "", "", err
	}
	if m := versionArgument.FindStringSubmatch(engine); m != nil {
		return key, "max(" + m[1] + ")", nil
	}
	return key, "0", nil
}

// A replicaState is what a server has of a table.
type replicaState struct {
	Server uint32 `ch:"server"`
	Rows   uint64 `ch:"rows"` // rows without older versions
	Hash   uint64 `ch:"hash"` // of their keys and versions
}

// compareReplicas checks that all servers of a shard have the same rows.
func (v *verifier) compareReplicas(ctx context.Context) outcome {
	servers := map[uint32]int{} // by shard
	for _, r := range v.replicas {
		servers[r.Shard]++
	}
	if slices.Min(slices.Collect(maps.Values(servers))) < 2 {
		return warnf("add a second server to each shard", "a shard has one server: while it is down, inserts wait and queries fail")
	}
	longest := 0.0
	for _, t := range tables {
		key, version, err := v.keys(ctx, t)
		if err != nil {
			return v.fail("read the sort key of "+t.Name(), err)
		}
		sql := "SELECT server, count() AS rows, groupBitXor(row) AS hash FROM (SELECT _shard_num AS server, cityHash64(" + key + ", " + version + ") AS row FROM " +
			v.everywhere(v.result.Database, t.Name()+localSuffix) + " GROUP BY server, " + key + ") GROUP BY server ORDER BY server"
		problem := ""
		took, same, err := v.until(ctx, func() (bool, error) {
			var states []replicaState
			if err := v.sink.conn.Select(ctx, &states, sql); err != nil {
				return false, err
			}
			problem = v.differentReplicas(states)
			return problem == "", nil
		})
		if err != nil {
			return v.fail("read "+t.Name()+" from all servers", err)
		}
		if !same {
			return failf("see system.replicas and system.replication_queue on that server: is it connected to Keeper, and does it reach port 9009 of the others?",
				"%s: %s, after %v", t.Name(), problem, v.cfg.Wait)
		}
		longest = max(longest, took.Seconds())
	}
	return okf("the %d servers have the rows of their shards, after %.1f s at most", v.result.Replicas, longest)
}

// differentReplicas returns how the servers of a shard differ, or "".
func (v *verifier) differentReplicas(states []replicaState) string {
	byServer := map[int]replicaState{}
	for _, st := range states {
		byServer[int(st.Server)] = st
	}
	first := map[uint32]int{} // first server by shard
	for i, r := range v.replicas {
		other, ok := first[r.Shard]
		if !ok {
			first[r.Shard] = i
			continue
		}
		a, b := byServer[other+1], byServer[i+1]
		if a.Rows != b.Rows || a.Hash != b.Hash {
			return fmt.Sprintf("%s has %d rows and %s has %d, or other versions of them", v.replicas[other], a.Rows, r, b.Rows)
		}
	}
	return ""
}
