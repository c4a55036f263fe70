#!/usr/bin/env bash
# The study of STUDY.md, in its order: `./run.sh` or `./run.sh core axes`. Stop it at any moment, kill -9 included, and start it again.
# Records go to PART/records.jsonl beside this file. fedadavr must be on the PATH (or FEDADAVR names it), the data in $FEDADAVR_DATA.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here"
exec 9> .lock
flock -n 9 || { echo "it is running already"; exit 1; }
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 NUMBA_NUM_THREADS=1
fedadavr=${FEDADAVR:-fedadavr}
python=${PYTHON:-python}
workers=${WORKERS:-2}

sweep() {  # PART, then the arguments of `fedadavr sweep`; the candidates are in $candidates
  local part=$1; shift
  # shellcheck disable=SC2086  # each candidate is a word
  nice -n 19 "$fedadavr" sweep --out "$part" --workers "$workers" --evaluate-every 1000 --algorithms $candidates "$@" 9>&-
}
mnist() { local part=$1; shift; sweep "$part" --dataset mnist --rounds 100 --local-epochs 1 "$@"; }
chosen() { candidates=$("$python" choose.py --words "$@"); }

core() {
  chosen --all
  mnist core --clients 500 --grid partition=lq-1,lq-2,dirichlet,iid client-lr=0.01,0.1 seed="${1:-51,52}"
}
axes() {
  local seeds=${1:-51,52} two="partition=lq-1,dirichlet"
  mnist axes --clients 100 --grid $two seed="$seeds"
  mnist axes --clients 1000 --grid $two seed="$seeds"
  mnist axes --clients 500 --clients-per-round 2 --grid $two seed="$seeds"
  mnist axes --clients 500 --clients-per-round 25 --grid $two seed="$seeds"
  mnist axes --clients 500 --rounds 300 --grid $two seed="$seeds"
  mnist axes --clients 500 --availability independent:p=0.2,each=beta --grid $two seed="$seeds"
}
part() {
  case $1 in
    core) core ;;
    axes) chosen --best 3 --parts core; axes ;;
    third) chosen --best 2 --parts core axes
      mnist core --clients 500 --grid partition=lq-1,lq-2,dirichlet,iid client-lr=0.01,0.1 seed=53
      axes 53 ;;
    fmnist) chosen --best 1 --and-default
      sweep fmnist --dataset fmnist --clients 500 --rounds 100 --local-epochs 3 \
        --grid partition=lq-1,lq-2,lq-3,dirichlet,iid-noniid,iid seed=51,52 ;;
    cifar10) chosen --best 1 --and-default
      sweep cifar10 --dataset cifar10 --model simple-cnn --rounds 200 --average-last 20 --grid partition=dirichlet,lq-2 seed=51 ;;
    starts) candidates="fedadavr-plus:server-lr=0.001 fedadavr-plus:server-lr=0.003 fedadavr-plus:server-lr=0.01 fedadavr-plus:server-lr=0.03"
      for start in none 0.0001 0.001 0.01; do candidates+=" fedadavr-plus:server-lr=learned,server-lr-start=$start"; done
      local six=partition=lq-1,lq-2,lq-3,dirichlet,iid-noniid,iid
      mnist starts --clients 500 --grid $six seed=51,52
      sweep starts --dataset fmnist --clients 500 --rounds 100 --local-epochs 3 --grid $six seed=51,52 ;;
    *) echo "there is no part $1: core axes third fmnist cifar10 starts"; exit 1 ;;
  esac
}

for name in "${@:-core axes third fmnist cifar10 starts}"; do
  for one in $name; do part "$one"; done
done
"$python" choose.py
