# A cell of Grid Engine whose only machine is this one. Its programs run as this account, at the ports in PORTS, below sge, and sge/down
# ends them. ssh reaches the machine by its name, with the home of the jobs. hosts.sh has run.
dir=$PWD/sge
set -- $PORTS
host=$(hostname)
lib=/usr/lib/gridengine
share=/usr/share/gridengine
mkdir -p sge/bin sge/lib sge/utilbin sge/cell/common sge/qmaster/job_scripts sge/execd
for name in bin lib utilbin; do ln -s $lib "sge/$name/$($share/util/arch)"; done
ln -s $share/util sge/util
export SGE_ROOT="$dir" SGE_CELL=cell SGE_QMASTER_PORT=$1 SGE_EXECD_PORT=$2
echo $host > sge/cell/common/act_qmaster
echo $host localhost $(hostname -f) $(hostname -s) > sge/cell/common/host_aliases
cat > sge/cell/common/bootstrap <<S
admin_user $(id -un)
default_domain none
ignore_fqdn true
spooling_method classic
spooling_lib libspoolc
spooling_params $dir/cell/common;$dir/qmaster
binary_path $dir/bin
qmaster_spool_dir $dir/qmaster
security_mode none
listener_threads 2
worker_threads 2
scheduler_threads 1
S
sed "s!^execd_spool_dir .*!execd_spool_dir $dir/execd!; s/^min_\([ug]\)id .*/min_\1id 0/; s!^mailer .*!mailer /bin/true!
	s/^load_report_time .*/load_report_time 00:00:02/; s/ flush_time=/ accounting_flush_time=00:00:00&/" $share/default-configuration > sge/global
LD_LIBRARY_PATH=$lib $lib/spoolinit classic libspoolc "$dir/cell/common;$dir/qmaster" init
$lib/spooldefaults configuration "$dir/global"
$lib/spooldefaults complexes $share/util/resources/centry
$lib/spooldefaults usersets $share/util/resources/usersets
$lib/spooldefaults managers $(id -un)
# Jobs get the environment of this test, instead of that of a login.
cat > sge/starter <<S
#!/bin/sh
export HOME=$HOME PATH=$PATH WORK=$WORK TMPDIR=$TMPDIR SYMPHONY_TEST_MARK=$SYMPHONY_TEST_MARK
exec "\$@"
S
chmod 755 sge/starter
cat > sge/down <<S
qdel '*' > /dev/null 2>&1 || true
for _ in \$(seq 30); do [ -n "\$(qstat)" ] && sleep 0.1 || break; done
for file in $dir/execd/*/execd.pid $dir/qmaster/qmaster.pid; do
	[ ! -e \$file ] || { pid=\$(cat \$file); kill -KILL \$pid; while kill -0 \$pid; do sleep 0.1; done; } 2>/dev/null
done
S
sge_qmaster
# Waits two minutes for a command to succeed.
await() {
	left=600
	until eval "$1"; do
		left=$((left - 1))
		[ $left -gt 0 ] || { echo "in vain: $1" >&2; exit 1; }
		sleep 0.2
	done
}
await 'qconf -ssconf > sge/scheduler 2> sge/error'
sed -i 's/^schedule_interval .*/schedule_interval 0:0:1/; s/^flush_\(submit\|finish\)_sec .*/flush_\1_sec 1/; s/^job_load_adjustments .*/job_load_adjustments NONE/' sge/scheduler
qconf -Msconf sge/scheduler
qconf -as $host
sge_execd
qconf -sq > sge/queue
sed -i "s/^qname .*/qname all.q/; s/^hostlist .*/hostlist $host/; s/^slots .*/slots 4/; s/^load_thresholds .*/load_thresholds NONE/; s/^pe_list .*/pe_list NONE/
	s!^starter_method .*!starter_method $dir/starter!; s!^tmpdir .*!tmpdir $TMPDIR!; s/^notify .*/notify 00:00:20/" sge/queue
qconf -Aq sge/queue
await "qstat -f | grep -q '^all\.q@.* lx-[a-z0-9]* *\$'"

sed "s!HOME=$PWD/hosts/near!HOME=$HOME!" hosts/server-near > hosts/server-node
echo "$host $(cat hosts/host.pub)" >> hosts/known
cat >> hosts/client <<S
Host $host
  ProxyCommand /usr/sbin/sshd -i -f $PWD/hosts/server-node -E $PWD/hosts/log
S
