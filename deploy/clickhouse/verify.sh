#!/bin/sh
# Proves that llmtap works with a ClickHouse server or cluster. README.md describes it.
set -eu

here=$(cd "$(dirname "$0")" && pwd)

usage() {
	cat <<'EOF'
Usage:
  verify.sh grants [CLUSTER [USER [DATABASE]]]
        print the statements that create the user of llmtap; without CLUSTER,
        for one server
  verify.sh server DSN [CLUSTER]
        verify your server or cluster; the password is read from the file
        LLMTAP_CLICKHOUSE_PASSWORD_FILE or is part of the DSN
  verify.sh compose
        start a cluster of 2 shards with 2 servers each in containers, verify it,
        also with a stopped server, and remove it

Environment:
  LLMTAP           the llmtap binary; default: llmtap, or go run
  COMPOSE          the compose command; default: docker compose
EOF
}

die() {
	echo "verify.sh: $*" >&2
	exit 2
}

say() {
	printf '\n== %s\n' "$*"
}

llmtap() {
	if [ -n "${LLMTAP:-}" ]; then
		"$LLMTAP" "$@"
	elif command -v llmtap >/dev/null; then
		command llmtap "$@"
	elif command -v go >/dev/null; then
		(cd "$here/../.." && go run ./cmd/llmtap "$@")
	else
		die "no llmtap found: set LLMTAP to the path of the binary"
	fi
}

# print_grants CLUSTER USER DATABASE prints grants.sql for these names. The password is not printed.
print_grants() {
	for name in "$@"; do
		case $name in
		*[!A-Za-z0-9_{}]*) die "$name: use letters, digits and _ in names" ;;
		esac
	done
	if [ -z "$1" ]; then
		sed -e "s/ ON CLUSTER 'main'//" -e '/CLUSTER, REMOTE/d' -e '/system\.\(clusters\|macros\|zookeeper\)/d' -e '/^-- Statements ON CLUSTER/d' "$here/grants.sql"
	else
		sed -e "s/ON CLUSTER 'main'/ON CLUSTER '$1'/" "$here/grants.sql"
	fi | sed -e "s/USER IF NOT EXISTS llmtap/USER IF NOT EXISTS $2/" -e "s/TO llmtap;/TO $2;/" \
		-e "s/ON llmtap\./ON $3./" -e "s/ON llmtap_verify\./ON ${3}_verify./"
}

# verify DSN CLUSTER [FLAG...]
verify() {
	dsn=$1 cluster=$2
	shift 2
	if [ -n "$cluster" ]; then
		set -- --cluster "$cluster" "$@"
	fi
	llmtap schema verify --clickhouse-dsn "$dsn" "$@"
}

compose() {
	# The command may consist of several words.
	# shellcheck disable=SC2086
	${COMPOSE:-docker compose} -f "$here/compose.yaml" "$@"
}

# client SERVER [FLAG...] runs statements from standard input as the user default.
client() {
	server=$1
	shift
	compose exec -T "$server" clickhouse-client --password "${CLICKHOUSE_PASSWORD:-admin}" --multiquery "$@"
}

# wait_for SERVER STATEMENT waits until the statement returns something other than nothing or 0.
wait_for() {
	tries=0
	until [ "$(echo "$2" | client "$1" 2>/dev/null || true)" -gt 0 ] 2>/dev/null; do
		tries=$((tries + 1))
		[ "$tries" -lt 90 ] || die "$1 does not answer: $2"
		sleep 2
	done
}

# lost_replica stops a server, writes and reads, and starts it again. The tables of the verification are kept until then.
lost_replica() {
	say "a server is lost: stop ch-2-2"
	compose stop ch-2-2
	before=$(echo "SELECT count() FROM llmtap_verify.runs_final" | client ch-1-1)
	echo "INSERT INTO llmtap_verify.runs (id, seq, seen_at) SELECT 'lost-' || toString(number), 1, now() FROM numbers(1000)" |
		client ch-1-1 --insert_distributed_sync=1
	after=$(echo "SELECT count() FROM llmtap_verify.runs_final" | client ch-1-1)
	[ "$((after - before))" -eq 1000 ] || die "with ch-2-2 stopped, 1000 rows were written, but $((after - before)) were read"
	echo "ok: 1000 rows written and read while ch-2-2 was stopped"
	say "the server comes back: start ch-2-2"
	compose start ch-2-2
	wait_for ch-2-2 "SELECT 1"
	rows="SELECT uniqExact(id) FROM llmtap_verify.runs_local"
	want=$(echo "$rows" | client ch-2-1)
	wait_for ch-2-2 "SELECT ($rows) = $want"
	echo "ok: ch-2-2 has the $want rows of its shard"
}

run_compose() {
	trap 'say "remove the containers"; compose down --volumes' EXIT
	trap 'exit 130' INT TERM
	say "start 4 servers and a Keeper"
	compose up --detach
	for server in ch-1-1 ch-1-2 ch-2-1 ch-2-2; do
		wait_for "$server" "SELECT count() FROM system.zookeeper WHERE path = '/'"
	done
	say "create the user llmtap"
	print_grants main llmtap llmtap | sed "s/CHANGE ME/verify/" | client ch-1-1
	say "verify"
	verify "http://llmtap:verify@127.0.0.1:18123/llmtap" main --keep
	lost_replica
	say "the cluster works with llmtap"
}

case ${1:-} in
grants)
	[ $# -le 4 ] || die "too many arguments; see verify.sh --help"
	print_grants "${2:-}" "${3:-llmtap}" "${4:-llmtap}"
	;;
server)
	[ $# -ge 2 ] && [ $# -le 3 ] || die "usage: verify.sh server DSN [CLUSTER]"
	verify "$2" "${3:-}"
	;;
compose)
	[ $# -eq 1 ] || die "unexpected argument $2"
	run_compose
	;;
-h | --help | help)
	usage
	;;
*)
	usage >&2
	exit 2
	;;
esac
