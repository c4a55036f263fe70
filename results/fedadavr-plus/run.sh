#!/usr/bin/env bash
# The study of STUDY.md; some three hours on two cores. A comparison that has its summary is not made again.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=${WORK:-$(mktemp -d)}
compare() {  # NAME, then the arguments of `fedadavr compare`
  local name=$1; shift
  [ -f "$here/$name.json" ] && return
  rm -rf "${work:?}/$name"
  fedadavr compare --workers 2 --evaluate-every 50 --out "$work/$name" "$@" > /dev/null 2>> "$work/log"
  cp "$work/$name/summary.json" "$here/$name.json"
  rm -rf "${work:?}/$name"
}
mnist() { local name=$1 partition=$2; shift 2; compare "$name" --dataset mnist --clients 500 --rounds 100 --partition "$partition" "$@"; }
plus=fedadavr-plus:server-lr=0.005
five="42 43 44 45 46"; three="42 43 44"

mnist lq1-plus lq-1 --seeds $five --algorithms $plus $plus,memories=centers $plus,memories=own
for partition in lq-2 lq-3 dirichlet iid-noniid iid; do
  mnist "$partition" "$partition" --seeds $three --algorithms fedadavr:server-lr=0.005 $plus
done
mnist lq1-study lq-1 --seeds $three --algorithms $plus,centers=5 $plus,centers=20 $plus,center-rate=0.3 $plus,center-rate=0.7 \
  $plus,center-similarity=0.3 $plus,center-similarity=0.7 $plus,trust-decay=0.8 $plus,trust-decay=0.95 $plus,beta1=0.8 \
  fedadavr-plus:server-lr=0.01,beta1=0.8
mnist lq1-sampler lq-1 --seeds $five --algorithms $plus,sampler=kinds $plus,sampler=kinds,centers=20 \
  $plus,sampler=kinds,center-similarity=0.7
mnist lq1-variants lq-1 --seeds $three --load "$here/variants.py" --algorithms plus-tensor-trust:server-lr=0.005 \
  plus-layer-centers:server-lr=0.005 plus-fp16-centers:server-lr=0.005 plus-int8-centers:server-lr=0.005 plus-offset:server-lr=0.005
mnist lq1-cover lq-1 --seeds $three --load "$here/variants.py" --algorithms $plus,sampler=kinds,trust=0 plus-shrink:server-lr=0.005 \
  plus-explore-shrink:server-lr=0.005 plus-explore-shrink:server-lr=0.005,trust=0
mnist lq1-shrink lq-1 --seeds 45 46 --load "$here/variants.py" --algorithms plus-shrink:server-lr=0.005
mnist lq1-replace lq-1 --seeds $three --load "$here/variants.py" --algorithms plus-replace:server-lr=0.005
mnist lq1-fedavg lq-1 --seeds $five --algorithms fedavg:client-lr=0.001 fedavg:client-lr=0.01 fedavg:client-lr=0.1
mnist lq1-fifty lq-1 --seeds $three --clients-per-round 50 --algorithms fedadavr-novr:server-lr=0.005

# FedAdaVR's fifteen settings, and the confirmation: cells of the paper's tables, by its protocol; table.py reads them there.
paper() { fedadavr paper run "$@" --out "$here/../paper" --workers 2 --json; }
paper mnist-optimizers --only partition=lq-1 algorithm=fedadavr
paper fmnist-baselines --only algorithm=fedavg,fedvarp,fedyogi,fedadavr-plus tau=none
paper fmnist-optimizers --only algorithm=fedadavr optimizer=adam server-lr=0.005
