#!/bin/bash
# Runs one worker of a Proctor run. `proctor submit --engine slurm` queues this script once per worker.
#   worker.sh PROGRAM RUN VERSION REQUEUES
program=$1 run=$2 version=$3 requeues=$4
node=${SLURMD_NODENAME:-$(hostname)}

fail() {
  echo "error: node $node: $1" >&2
  echo " hint: $2" >&2
  exit 2
}

[ -d "$run" ] || fail "the run directory $run does not exist" "put it on a file system that every node mounts at the same path"
[ -r "$run/run.json" ] || fail "$(id -un) cannot read $run/run.json" "check the owner and the permissions of the run directory"
[ -w "$run" ] || fail "$(id -un) cannot write to $run" "check the owner and the permissions of the run directory, and whether the node mounts it read-only"
[ -x "$program" ] || fail "the program $program does not exist or is not executable" "install proctor on a file system that every node mounts at the same path"
found=$("$program" -V 2>&1)
[ "$found" = "proctor $version" ] || fail "$program is \"$found\", but the run was submitted with proctor $version" "install the same version for all nodes"

export PROCTOR_JOB=${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}_${SLURM_ARRAY_TASK_ID:-0}
export PROCTOR_JOB_RESTARTS=${SLURM_RESTART_COUNT:-0} PROCTOR_NODE=$node
# Don't use $SLURM_JOB_ID here: for one task of an array, it is the id of the whole array.
left=$(timeout 30 squeue -h -j "$PROCTOR_JOB" -o %L 2>/dev/null)
# The controller may be down. Newer versions of Slurm also put the end of the job into the environment.
if [ -z "$left" ] && [ -n "$SLURM_JOB_END_TIME" ]; then
  seconds=$((SLURM_JOB_END_TIME - $(date +%s)))
  [ "$seconds" -gt 0 ] || seconds=0
  left=$((seconds / 60)):$((seconds % 60))
fi

# Slurm sends USR1 before the time limit, and TERM when it ends the job.
worker=
trap '[ -z "$worker" ] || kill -USR1 "$worker"' USR1
trap '[ -z "$worker" ] || kill -TERM "$worker"' TERM

echo "node $node: job $PROCTOR_JOB, start ${SLURM_RESTART_COUNT:-0}, time left ${left:-unknown}"
"$program" worker "$run" --time-left "${left:-UNLIMITED}" &
worker=$!
wait "$worker"
# Wait again, because a signal ends `wait` early. The last `wait` returns the worker's own status.
while kill -0 "$worker" 2>/dev/null; do wait "$worker"; done
wait "$worker"
code=$?
worker=

# A killed worker leaves no message. A worker that was asked to stop exits with status 130, or with 143 if it had only
# just started.
if [ "$code" -gt 128 ] && [ "$code" != 130 ] && [ "$code" != 143 ]; then
  echo "error: node $node: the worker was ended by SIG$(kill -l "$code")" >&2
  echo " hint: if the job ran out of memory, submit with a larger --engine-set mem=...; other workers continue its trials" >&2
fi

# Status 75: the worker was asked to stop, and some trials are unfinished.
if [ "$code" = 75 ]; then
  if [ "${SLURM_RESTART_COUNT:-0}" -ge "$requeues" ]; then
    echo "some trials are unfinished, but this job was already requeued $requeues times: start more workers with \`proctor submit $run --engine slurm --workers N\`" >&2
  elif scontrol requeue "$PROCTOR_JOB"; then
    # Wait until Slurm ends this job in order to requeue it.
    sleep 120
  else
    echo "some trials are unfinished, and Slurm cannot requeue this job: start more workers with \`proctor submit $run --engine slurm --workers N\`" >&2
  fi
fi
exit "$code"
