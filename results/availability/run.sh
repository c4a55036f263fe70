#!/bin/sh
# The study of who comes when. Stop it at any moment and start it again: it goes on.
#
#   FEDADAVR_DATA=... setsid nohup results/availability/run.sh >> availability.log 2>&1 &
cd "$(dirname "$0")/../.." || exit 1
PYTHON=${PYTHON:-.venv/bin/python}
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 NUMBA_NUM_THREADS=1
nice -n 10 "$PYTHON" results/availability/study.py choose 2 &&
nice -n 10 "$PYTHON" results/availability/study.py table 2
echo "$(date -u +%FT%TZ) done"
