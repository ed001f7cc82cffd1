# A Slurm cluster with the nodes n1 and n2, which are this machine. Its programs run as this account, at the ports in PORTS, below slurm.
# slurm/down ends it. bin has its commands, which know it and what a job of this test needs.
mkdir -p slurm/ctl bin
dir=$PWD/slurm
head -c 128 /dev/urandom > slurm/key
chmod 600 slurm/key
set -- $PORTS
host=$(hostname -s)
cat > slurm/slurm.conf <<S
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthInfo=socket=$dir/munge
SlurmctldPort=$1
StateSaveLocation=$dir/ctl
SlurmdSpoolDir=$dir/spool-%n
SlurmctldPidFile=$dir/ctl.pid
SlurmdPidFile=$dir/%n.pid
SlurmctldLogFile=$dir/ctl.log
SlurmdLogFile=$dir/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=2,default_queue_depth=100
KillWait=15
MinJobAge=300
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$2 CPUs=8
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$3 CPUs=8
PartitionName=all Nodes=n1,n2 Default=YES State=UP
PartitionName=one Nodes=n1 State=UP
S
export SLURM_CONF=$dir/slurm.conf
cat > slurm/down <<S
export SLURM_CONF=$dir/slurm.conf
# Without a controller scancel waits long, and jobs that still end when it goes leave processes.
timeout 20 sh -c 'scancel --me; until [ -z "\$(squeue --me --noheader)" ]; do sleep 0.2; done' || true
for file in $dir/n1.pid $dir/n2.pid $dir/ctl.pid $dir/munge.pid; do
	[ ! -e \$file ] || { pid=\$(cat \$file); kill \$pid; while kill -0 \$pid; do sleep 0.1; done; } 2>/dev/null
done
S
for name in sbatch srun squeue scancel sinfo scontrol; do
	cat > bin/$name <<S
#!/bin/sh
export SLURM_CONF=$dir/slurm.conf WORK=$WORK TMPDIR=$TMPDIR SYMPHONY_TEST_MARK=$SYMPHONY_TEST_MARK
exec $(command -v $name) "\$@"
S
	chmod 755 bin/$name
done
munged --force --num-threads=2 --key-file=$dir/key --socket=$dir/munge --pid-file=$dir/munge.pid --log-file=$dir/munge.log --seed-file=$dir/seed
slurmctld
slurmd -N n1
slurmd -N n2
left=600
until sinfo --noheader --format=%T | grep -q '^idle$' && ! sinfo --noheader --format=%T | grep -qv '^idle$'; do
	left=$((left - 1))
	[ $left -gt 0 ] || { tail -n 5 slurm/*.log >&2; exit 1; }
	sleep 0.2
done
