#!/usr/bin/env bash
# Runs a command beside a real SLURM cluster of several nodes that exists on this machine only, and only as long as the command.
#   tools/onebox_slurm.sh [--nodes N] [--cpus N] [--gpus N] -- COMMAND...      node1 ... nodeN, partitions "debug" and "short"
#   tools/onebox_slurm.sh --check                                              says why it cannot run here, if so (exit code 6)
# Needs root and Debian's slurm-wlm, munge and iproute2. Everything lives in name spaces of its own (processes, network, mounts,
# host name) that end with the command: nothing outside is changed, and several clusters can run at the same time. Each node has its own
# slurmd, address and host name; files are shared. Options by environment: ONEBOX_KEEP_LOGS=DIR keeps the logs of the daemons there.
set -euo pipefail

nodes=4 cpus=8 gpus=4 check=0
while [ $# -gt 0 ]; do
  case $1 in
    --nodes) nodes=$2; shift 2 ;;
    --cpus) cpus=$2; shift 2 ;;
    --gpus) gpus=$2; shift 2 ;;
    --check) check=1; shift ;;
    --) shift; break ;;
    *) echo "onebox_slurm: unknown option '$1'" >&2; exit 2 ;;
  esac
done

missing() {
  [ "$(id -u)" = 0 ] || { echo "needs root"; return; }
  local program
  for program in slurmctld slurmd munged sbatch ip unshare nsenter; do
    command -v $program >/dev/null || { echo "needs $program (Debian packages slurm-wlm, munge, iproute2, util-linux)"; return; }
  done
  unshare --net --mount --uts --pid --fork true 2>/dev/null || { echo "needs name spaces, which this machine refuses"; return; }
  unshare --net --fork ip link add onebox0 type bridge 2>/dev/null || echo "needs a network bridge, which this kernel refuses"
}
PATH=$PATH:/usr/sbin:/sbin
reason=$(missing)
[ -z "$reason" ] || { echo "onebox_slurm: $reason" >&2; exit 6; }
[ $check = 0 ] || exit 0
[ $# -gt 0 ] || { echo "onebox_slurm: no command after --" >&2; exit 2; }

# Second start, inside the name spaces: everything dies with this process.
if [ -z "${ONEBOX_INSIDE:-}" ]; then
  root=$(mktemp -d /tmp/onebox.XXXXXX)
  trap 'rm -rf "$root"' EXIT
  code=0
  ONEBOX_INSIDE=$root unshare --net --mount --uts --pid --fork --kill-child --mount-proc -- \
    "$BASH" "${BASH_SOURCE[0]}" --nodes "$nodes" --cpus "$cpus" --gpus "$gpus" -- "$@" || code=$?
  if [ -n "${ONEBOX_KEEP_LOGS:-}" ]; then mkdir -p "$ONEBOX_KEEP_LOGS" && cp -r "$root/log/." "$ONEBOX_KEEP_LOGS"; fi
  exit $code
fi

root=$ONEBOX_INSIDE
unset ONEBOX_INSIDE
net=10.77.0

write_configuration() {
  mkdir -p "$root"/{etc,run,log,state,spool,dev}
  chmod 755 "$root" "$root"/*
  head -c 1024 /dev/urandom >"$root/etc/munge.key"
  chmod 400 "$root/etc/munge.key"
  { echo "127.0.0.1 localhost"; echo "$net.254 head"
    for ((n = 1; n <= nodes; n++)); do echo "$net.$n node$n"; done; } >"$root/etc/hosts"
  # SLURM counts GPUs by device files; clones of /dev/null do, and nothing may open them as GPUs.
  for ((g = 0; g < gpus; g++)); do mknod -m 666 "$root/dev/gpu$g" c 1 3; done
  [ "$gpus" = 0 ] || echo "NodeName=node[1-$nodes] Name=gpu File=$root/dev/gpu[0-$((gpus - 1))]" >"$root/etc/gres.conf"
  # config_overrides: nodes may claim more cores than the machine has. cred_expire: a requeued job waits 6 s instead of 120 s.
  # KillWait: a cancelled job may save its checkpoint however busy the machine is.
  cat >"$root/etc/slurm.conf" <<CONF
ClusterName=onebox
SlurmctldHost=head($net.254)
SlurmUser=root
AuthInfo=socket=$root/run/munge.sock,cred_expire=5
SlurmctldPidFile=$root/run/slurmctld.pid
SlurmctldLogFile=$root/log/slurmctld.log
StateSaveLocation=$root/state
SlurmdSpoolDir=$root/spool/%n
SlurmdPidFile=$root/run/slurmd-%n.pid
SlurmdLogFile=$root/log/slurmd-%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1,sched_min_interval=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
KillWait=120
SlurmdTimeout=30
NodeName=node[1-$nodes] NodeAddr=$net.[1-$nodes] CPUs=$cpus Sockets=1 CoresPerSocket=$cpus ThreadsPerCore=1 RealMemory=4000$([ "$gpus" = 0 ] || echo " Gres=gpu:$gpus")
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=short Nodes=ALL MaxTime=60 State=UP
CONF
}

# A bridge holds the head's address; each node is a network of its own on the other end of a cable.
build_network() {
  ip link set lo up
  mkdir -p /run/netns
  mount -t tmpfs onebox /run/netns
  ip link add onebox0 type bridge
  ip addr add $net.254/24 dev onebox0
  ip link set onebox0 up
  for ((n = 1; n <= nodes; n++)); do
    ip netns add node$n
    ip link add port$n type veth peer name eth0 netns node$n
    ip link set port$n master onebox0 up
    ip -n node$n addr add $net.$n/24 dev eth0
    ip -n node$n link set eth0 up
    ip -n node$n link set lo up
  done
}

start_daemons() {
  hostname head
  mount --bind "$root/etc/hosts" /etc/hosts
  munged --key-file="$root/etc/munge.key" --socket="$root/run/munge.sock" --pid-file="$root/run/munged.pid" \
    --log-file="$root/log/munged.log" --seed-file="$root/run/munged.seed" --force 2>"$root/log/munged.start"
  slurmctld -D -c >"$root/log/slurmctld.out" 2>&1 &
  for ((n = 1; n <= nodes; n++)); do
    # Not `ip netns exec`: it would hide /sys/fs/cgroup, which slurmd looks at.
    nsenter --net=/run/netns/node$n unshare --uts "$BASH" -c "hostname node$n; exec slurmd -D -N node$n" >"$root/log/slurmd-$n.out" 2>&1 &
  done
  for ((i = 0; i < 600; i++)); do
    [ "$(sinfo -h -N -p debug -o %t 2>/dev/null | grep -cE '^(idle|mix|alloc)$')" = "$nodes" ] && return
    sleep 0.05
  done
  echo "onebox_slurm: the nodes did not come up within 30 s; the end of the daemons' logs follows" >&2
  tail -n 5 "$root"/log/* >&2
  exit 6
}

mount --make-rprivate /
write_configuration
export SLURM_CONF=$root/etc/slurm.conf
build_network
start_daemons
code=0
"$@" || code=$?
exit $code
