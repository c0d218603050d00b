#!/bin/sh
# Writes the secrets of compose.yaml into secrets/, once: secrets.sh SERVICE..., the services of your agents.
# The agents of a service publish with the URL in secrets/nats/SERVICE.env. They are on this machine, or on others with
# LLMTAP_HOST, the name by which they reach it: put TLS in front, or use a network that you trust.
set -eu
cd "$(dirname "$0")"
test $# -gt 0 || { echo "usage: secrets.sh SERVICE..., such as secrets.sh checkout-agent" >&2; exit 2; }
umask 077
mkdir -p secrets/nats
chmod 700 secrets
for name in llmtap-token agents-token clickhouse-password grafana-password; do
	# The containers have users of their own, which must read the files; on the host, only the owner gets into secrets/.
	test -s "secrets/$name" || { od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >"secrets/$name"; chmod 644 "secrets/$name"; }
done
for service; do set -- "$@" --service "$service"; shift; done
host=${LLMTAP_HOST:-127.0.0.1}
# The image is built if it cannot be pulled.
export NATS_URL=unknown
${LLMTAP:-docker compose run --rm --no-deps --user "$(id -u):$(id -g)" -v "$PWD/secrets/nats:/nats" llmtap} \
	nats accounts --dir "${NATS_DIR:-/nats}" --url nats://nats:4222 "$@"
for service; do # the URLs of agents, which exist after an earlier run
	test "$service" = --service || sed -i "s/@[^@:]*:4222/@$host:4222/" "secrets/nats/$service.env"
done
chmod 755 secrets/nats && chmod 644 secrets/nats/llmtap-accounts.conf
{
	sed 's/^LLMTAP_COLLECTOR_NATS_URL=/NATS_URL=/' secrets/nats/llmtap-collector.env
	test "$host" = 127.0.0.1 || echo "AGENTS_BIND=0.0.0.0"
	# Grafana reads those of its data sources from its environment.
	echo "LLMTAP_HTTP_TOKEN=$(cat secrets/llmtap-token)"
	echo "CLICKHOUSE_PASSWORD=$(cat secrets/clickhouse-password)"
} >.env
