#!/usr/bin/env bash
# A whole deployment on this machine: TLS, registered keys, one SuperLink, four SuperNodes, three rounds.
# It prints every command; on several hosts they are the same (docs/deploying.md).
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
export FLWR_HOME="$work/flwr" FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1
pids=()
say() { printf '\n== %s\n' "$*"; }
show() { printf '+ %s\n' "$*"; "$@"; }
begin() { printf '+ %s &\n' "$*"; setsid "$@" > "$work/${#pids[@]}.log" 2>&1 & pids+=($!); }
finish() {
  say "stop everything that was started here"
  for pid in "${pids[@]}"; do kill -- "-$pid" 2> /dev/null || true; done
  for pid in "${pids[@]}"; do wait "$pid" 2> /dev/null || true; done
  rm -rf "$work"
}
trap finish EXIT
read -r port a b c d < <(python - <<'PY'
import socket
sockets = [socket.socket() for _ in range(5)]
for s in sockets:
    s.bind(("127.0.0.1", 0))
print(*(s.getsockname()[1] for s in sockets))
PY
)

say "certificates: a certificate authority, and the SuperLink's, which names its address"
show openssl req -x509 -newkey rsa:3072 -nodes -days 30 -subj "/CN=federation CA" -keyout "$work/ca.key" -out "$work/ca.crt" 2> /dev/null
show openssl req -newkey rsa:3072 -nodes -subj "/CN=localhost" -keyout "$work/server.key" -out "$work/server.csr" 2> /dev/null
echo "subjectAltName=DNS:localhost,IP:127.0.0.1" > "$work/san"
show openssl x509 -req -in "$work/server.csr" -CA "$work/ca.crt" -CAkey "$work/ca.key" -CAcreateserial -days 30 -extfile "$work/san" -out "$work/server.pem" 2> /dev/null

say "the SuperLink, with its state in SQLite"
begin flower-superlink --ssl-ca-certfile "$work/ca.crt" --ssl-certfile "$work/server.pem" --ssl-keyfile "$work/server.key" \
  --enable-supernode-auth --database "$work/state.db" --host 127.0.0.1 --port "$port" --disable-runtime-dependency-installation
for _ in $(seq 300); do (: > "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done

say "how \`flwr\` finds it"
mkdir -p "$FLWR_HOME"
tee "$FLWR_HOME/config.toml" <<TOML
[superlink]
default = "here"
[superlink.here]
address = "127.0.0.1:$port"
root-certificates = "$work/ca.crt"
TOML

say "a key for each node, registered with the SuperLink; then the nodes, each with its client's id"
node_ports=("$a" "$b" "$c" "$d")
for k in 0 1 2 3; do
  show ssh-keygen -q -t ecdsa -b 384 -N "" -f "$work/node-$k"
  show flwr supernode register "$work/node-$k.pub" here
  begin flower-supernode --root-certificates "$work/ca.crt" --superlink "127.0.0.1:$port" --port "${node_ports[$k]}" \
    --auth-supernode-private-key "$work/node-$k" --node-config "client-id=\"clinic-$k\" partition-id=$k num-partitions=4"
done

say "three rounds; the server's memory is in $work/memory"
show flwr run . here --stream --run-config "min-nodes=4 store='lmdb:$work/memory' authenticated=true"

say "what the server remembers"
show fedadavr memory inspect "$work/memory"
show fedadavr memory verify "$work/memory"
