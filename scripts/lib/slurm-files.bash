# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For scripts/slurm-cluster: the cluster's folder and what is written there before a daemon starts.
# shellcheck disable=SC2154  # the settings are the script's

# Ports, from `base` on: slurmctld, slurmdbd, slurmrestd, then a slurmd per node.
ctld_port() { echo "$base"; }
dbd_port() { echo $((base + 1)); }
rest_port() { echo $((base + 2)); }
node_port() { echo $((base + 2 + $1)); }

# Below the range from which the kernel gives out ports of outgoing connections.
choose_ports() {
  local count=$((nodes + 3)) lowest=12000 highest=32000 used try port free
  used=$(awk 'FNR > 1 { sub(/.*:/, "", $2); print $2 }' /proc/net/tcp /proc/net/tcp6 | sort -u |
    while read -r port; do echo " $((16#$port)) "; done)
  for ((try = 0; try < 200; ++try)); do
    base=$((lowest + RANDOM % (highest - lowest - count)))
    free=yes
    for ((port = base; port < base + count; ++port)); do
      if [[ $used == *" $port "* ]]; then free=no; fi
    done
    if [ $free = yes ]; then return; fi
  done
  die "no $count free ports in a row between $lowest and $highest"
}

make_user() {
  if id -u "$user" >/dev/null 2>&1; then return; fi
  useradd --system --user-group --no-create-home --home-dir "$dir/home" --shell /bin/bash "$user"
  made_user=yes
}

# Slurm names a node's group after the node alone: who has made them has the names.
node_cgroups() { find /sys/fs/cgroup/memory -maxdepth 1 -type d -name 'slurm_n[0-9]*'; }
check_cgroups() {
  [ -w /sys/fs/cgroup/memory/tasks ] || die '--memory enforced: no cgroup v1 for memory here'
  [ -z "$(node_cgroups)" ] || die "--memory enforced: another Slurm has $(node_cgroups | xargs)"
}

make_folder() {
  if [ "$memory" = enforced ]; then check_cgroups; fi
  mkdir -p "$(dirname "$dir")"
  mkdir "$dir"
  : >"$dir/.slurm-cluster"
  chmod 755 "$dir"
  make_user
  choose_ports
  [ "$(id -u "$user")" -ne 0 ] || die "--user $user: the sweeps run as an ordinary user"
  declare -p name nodes gpus gpu_type cpus user made_user proctrack memory accounting rest \
    switches base |
    sed 's/^declare --/declare -g/' >"$dir/settings"
  mkdir "$dir"/{pids,log,run,flags,spool,dev,home,rest}
  mkdir -m 700 "$dir"/{secret,state,mysql,tmp,spool/ctld}
  chown "$user:" "$dir/home" "$dir/rest"
  chmod 700 "$dir/home" "$dir/rest"
  setpriv "--reuid=$user" "--regid=$(id -g "$user")" --init-groups test -w "$dir/home" ||
    die "$user cannot reach $dir"
  local node gpu
  for ((node = 1; node <= nodes; ++node)); do
    mkdir "$dir/spool/n$node"
    if [ "$memory" = enforced ]; then mkdir "/sys/fs/cgroup/memory/slurm_n$node"; fi
  done
  for ((gpu = 0; gpu < gpus; ++gpu)); do
    mknod -m 666 "$dir/dev/gpu$gpu" c 195 "$gpu" || die "no character devices can be made here"
  done
  (
    umask 077
    openssl rand 128 >"$dir/secret/munge.key"
    openssl rand 32 >"$dir/secret/jwt.key"
    if [ "$accounting" = on ]; then write_slurmdbd_conf; fi
  )
  write_slurm_conf
  write_prolog
  write_env
}

write_slurmdbd_conf() {
  cat >"$dir/slurmdbd.conf" <<TEXT
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=$(dbd_port)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/run/munge.socket
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=$dir/secret/jwt.key
PidFile=$dir/run/slurmdbd.pid
LogFile=$dir/log/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct
TEXT
}

write_topology() {
  local leaf node below
  {
    for ((leaf = 1; leaf <= switches; ++leaf)); do
      below=''
      for ((node = leaf; node <= nodes; node += switches)); do below+=${below:+,}n$node; done
      echo "SwitchName=leaf$leaf Nodes=$below"
    done
    echo "SwitchName=core Switches=leaf[1-$switches]"
  } >"$dir/topology.conf"
}

write_slurm_conf() {
  local gres='' task=none line key
  if [ "$memory" = enforced ]; then task=cgroup; fi
  if [ "$gpus" -gt 0 ]; then gres=" Gres=gpu:${gpu_type:+$gpu_type:}$gpus"; fi
  {
    cat <<TEXT
ClusterName=$name
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldPort=$(ctld_port)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/run/munge.socket
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=$dir/secret/jwt.key
CredType=cred/munge
StateSaveLocation=$dir/spool/ctld
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmdPidFile=$dir/run/%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/%n.log
SlurmctldDebug=info
SlurmdDebug=info
MailProg=/bin/true
Prolog=$dir/prolog
ProctrackType=proctrack/$proctrack
TaskPlugin=task/$task
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=1000
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,batch_sched_delay=0,bf_interval=2
PropagateResourceLimits=NONE
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
ReturnToService=2
SlurmdTimeout=15
SlurmctldTimeout=15
MessageTimeout=10
MinJobAge=20
KillWait=3
InactiveLimit=0
GetEnvTimeout=2
MaxArraySize=10001
MaxJobCount=20000
JobAcctGatherType=jobacct_gather/linux
TEXT
    if [ "$accounting" = on ]; then
      cat <<TEXT
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$(dbd_port)
AccountingStoragePass=$dir/run/munge.socket
AccountingStorageTRES=gres/gpu
TEXT
    else
      echo 'AccountingStorageType=accounting_storage/none'
    fi
    if [ "$gpus" -gt 0 ]; then echo 'GresTypes=gpu'; fi
    if [ "$switches" -gt 0 ]; then echo 'TopologyPlugin=topology/tree'; fi
  } >"$dir/slurm.conf"
  if [ "$switches" -gt 0 ]; then write_topology; fi
  for line in "${overrides[@]}"; do
    key=${line%%=*}
    sed -i "/^$key=/Id" "$dir/slurm.conf"
    printf '%s\n' "$line" >>"$dir/slurm.conf"
  done
  cat >>"$dir/slurm.conf" <<TEXT
NodeName=n[1-$nodes] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[$(node_port 1)-$(node_port "$nodes")] CPUs=$cpus RealMemory=32000$gres
PartitionName=DEFAULT Nodes=ALL State=UP DefaultTime=30 MaxTime=1-0
PartitionName=main Default=YES PriorityTier=10 PreemptMode=OFF
PartitionName=short PriorityTier=10 PreemptMode=OFF DefaultTime=1 MaxTime=1
PartitionName=spare-cancel PriorityTier=1 PreemptMode=CANCEL
PartitionName=spare-requeue PriorityTier=1 PreemptMode=REQUEUE
TEXT
  if [ "$nodes" -eq 1 ]; then sed -i 's/Port=\[\([0-9]*\)-[0-9]*\]/Port=\1/' "$dir/slurm.conf"; fi
  {
    echo 'AutoDetect=off'
    if [ "$gpus" -gt 0 ]; then
      echo "NodeName=n[1-$nodes] Name=gpu ${gpu_type:+Type=$gpu_type }File=$dir/dev/gpu[0-$((gpus - 1))]"
    fi
  } >"$dir/gres.conf"
  echo 'CgroupPlugin=cgroup/v1' >"$dir/cgroup.conf"
  if [ "$memory" = enforced ]; then echo 'ConstrainRAMSpace=yes' >>"$dir/cgroup.conf"; fi
}

write_prolog() {
  cat >"$dir/prolog" <<TEXT
#!/bin/sh
# Fails while a flag says so: slurm-cluster prolog-fail on|off [N]
[ ! -e $dir/flags/prolog-fail ] && [ ! -e "$dir/flags/prolog-fail.\$SLURMD_NODENAME" ]
TEXT
  chmod 755 "$dir/prolog"
}

write_env() {
  cat >"$dir/site.yaml" <<TEXT
# For shardsweep --site, on the cluster '$name' of scripts/slurm-cluster.
backend: slurm
slurm:
  partition: main
TEXT
  {
    echo "export SLURM_CONF=$dir/slurm.conf"
    echo "export SHARDSWEEP_SITE=$dir/site.yaml"
    echo "export SLURM_CLUSTER_DIR=$dir"
    echo "export SLURM_CLUSTER_USER=$user"
    if [ "$rest" = on ]; then
      echo "export SLURMRESTD_URL=http://127.0.0.1:$(rest_port)"
      echo "export SLURMRESTD_SOCKET=$dir/rest/socket"
      echo "export SLURMRESTD_TOKEN_FILE=$dir/rest/token"
    fi
  } >"$dir/env"
  # Where the tool looks when nothing is said.
  mkdir -p "$dir/home/.config/shardsweep"
  ln -s "$dir/site.yaml" "$dir/home/.config/shardsweep/site.yaml"
  chown -hR "$user:" "$dir/home"
}
