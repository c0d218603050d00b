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

// checkCluster checks that the cluster exists, and that all of its servers answer and reach Keeper.
func (v *verifier) checkCluster(ctx context.Context) VerifyStep {
	var macros []struct {
		Macro string `ch:"macro"`
		Value string `ch:"substitution"`
	}
	if err := v.admin.Select(ctx, &macros, "SELECT macro, substitution FROM system.macros"); err != nil {
		return v.fail("read the macros", err)
	}
	v.cluster = v.cfg.Cluster
	for _, m := range macros {
		v.cluster = strings.ReplaceAll(v.cluster, "{"+m.Macro+"}", m.Value)
	}
	if err := v.admin.Select(ctx, &v.replicas, "SELECT shard_num, replica_num, host_name, port FROM system.clusters WHERE cluster = ? ORDER BY shard_num, replica_num", v.cluster); err != nil {
		return v.fail("read system.clusters", err)
	}
	if len(v.replicas) == 0 {
		known, err := v.names(ctx, "SELECT DISTINCT cluster FROM system.clusters ORDER BY cluster")
		if err != nil {
			return v.fail("read system.clusters", err)
		}
		return failf("correct --cluster, or define the cluster in remote_servers", "cluster %s does not exist; this server knows: %s", v.cluster, cmp.Or(list(known), "none"))
	}
	v.rows = max(v.rows, verifyRowsPerShard*v.shardCount())
	if _, err := v.names(ctx, "SELECT toString(count()) FROM "+v.everywhere("system", "zookeeper")+" WHERE path = '/'"); err != nil {
		return v.fail("read Keeper from all servers", err)
	}
	text := fmt.Sprintf("%s: shards: %d, servers: %d, all with Keeper", v.cluster, v.shardCount(), len(v.replicas))
	if off, err := v.withoutInternalReplication(ctx); err != nil {
		return v.fail("read system.clusters", err)
	} else if off {
		return warnf("set internal_replication to true in remote_servers", "%s; internal_replication is off, so that each row is sent to every server and stored twice", text)
	}
	return okf("%s", text)
}

// shardCount returns the number of shards of the cluster.
func (v *verifier) shardCount() int { return int(v.replicas[len(v.replicas)-1].Shard) }

// everywhere returns a table function that reads a table from every server, each of which has its own _shard_num.
func (v *verifier) everywhere(database, table string) string {
	return fmt.Sprintf("clusterAllReplicas(%s, %s, %s)", sqltext.QuoteString(v.cluster), sqltext.QuoteString(database), sqltext.QuoteString(table))
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
func (v *verifier) shards(ctx context.Context) VerifyStep {
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
			return failf("define the macro shard, different for each shard, and insert only through the Distributed tables", "%s: %d rows have versions on several shards", t.Name(), n)
		}
	}
	counts, err := v.sink.strings(ctx, "SELECT toString(uniqExact(exchange_id)) FROM exchanges GROUP BY _shard_num ORDER BY _shard_num")
	if err != nil {
		return v.fail("count the rows of the shards", err)
	}
	text := fmt.Sprintf("all versions of each row are on one shard; exchanges by shard: %s", list(counts))
	if len(counts) < v.shardCount() {
		return warnf("check the weights of the shards in remote_servers: a shard with weight 0 stores nothing", "%s: %d of %d shards have rows", text, len(counts), v.shardCount())
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
func (v *verifier) compareReplicas(ctx context.Context) VerifyStep {
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
			v.everywhere(v.database, t.Name()+localSuffix) + " GROUP BY server, " + key + ") GROUP BY server ORDER BY server"
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
				"%s: %s, after %v", t.Name(), problem, replicationWait)
		}
		longest = max(longest, took.Seconds())
	}
	return okf("the %d servers have the rows of their shards, after %.1f s at most", len(v.replicas), longest)
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
