#!/bin/sh
# The long runs on the hard data, in order. Stop it at any moment, kill -9 included, and start it
# again: what is recorded is not run again, and what was under way goes on where it was committed.
#
#   FEDADAVR_DATA=... setsid nohup results/hard-data/run.sh >> runs.log 2>&1 &
#
# Records go to results/paper/PRESET/records.jsonl; runs under way are in results/paper/PRESET/unfinished.
cd "$(dirname "$0")/../.." || exit 1
exec 9> results/hard-data/.lock
flock -n 9 || { echo "it is running already"; exit 1; }
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 NUMBA_NUM_THREADS=1

paper() {
    for attempt in 1 2 3; do
        echo "$(date -u +%FT%TZ) paper run $*"
        nice -n 19 .venv/bin/fedadavr paper run "$@" 9>&- && return
    done
    echo "$(date -u +%FT%TZ) gave up for now: paper run $*"
}

paper cifar10-iid --seeds 42 --workers 2
paper fmnist-baselines --seeds 43 44 --workers 2 --checkpoint-every 25
paper fmnist-best --seeds 43 44 --workers 2 --checkpoint-every 25
paper cifar10-cnn --seeds 42 43 44 --workers 2 --checkpoint-every 25
# All five at once, so that they are at about the same round whenever this ends.
paper shakespeare-best --seeds 42 --workers 5 --checkpoint-every 2
# Nothing typed but the name.
paper cifar10-cnn-untyped --seeds 42 43 44 --workers 2 --checkpoint-every 25
paper cifar10-iid-untyped --seeds 42 --workers 2
paper shakespeare-best-untyped --seeds 42 --workers 4 --checkpoint-every 2
echo "$(date -u +%FT%TZ) done"
