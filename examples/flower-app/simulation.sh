#!/usr/bin/env bash
# The app on Flower's simulation (Ray), ten clients, and an end to the SuperLink that `flwr run` leaves behind.
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
export FLWR_HOME="$work/flwr" FLWR_TELEMETRY_ENABLED=0 RAY_USAGE_STATS_ENABLED=0 FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1
finish() {  # the SuperLink of this run, known by its own folder
  for process in $(grep -slz "$work/flwr" /proc/[0-9]*/cmdline); do kill "$(basename "$(dirname "$process")")" 2> /dev/null || true; done
  rm -rf "$work" || true
}
trap finish EXIT
set -x
flwr run . --stream --federation-config "num-supernodes=10 client-resources-num-cpus=1" --run-config "min-nodes=10 num-server-rounds=3"
