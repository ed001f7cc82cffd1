# A stand-in for an engine of containers, with docker's streams: engine run, exec, ps, stop and rm, and a daemon that starts the jobs. A job has a
# home and an environment of its own. While engine.full exists, jobs wait. touch engine.end ends the daemon.
mkdir -p engine/home bin
dir=$PWD/engine
cat > bin/engine <<S
#!/bin/sh
job=$dir/\$2
env="env -i HOME=$dir/home PATH=$PATH WORK=$WORK TMPDIR=$TMPDIR SYMPHONY_TEST_MARK=$SYMPHONY_TEST_MARK"
[ ! -e $dir.down ] || { echo 'Cannot connect to the engine' >&2; exit 1; }
echo "\$1" >> $dir.calls
S
cat >> bin/engine <<'S'
# Prints a process and all below it.
tree() { echo "$1"; for child in $(ps -o pid= --ppid "$1"); do tree "$child"; done; }
case $1 in
run)
	[ ! -e "$job" ] || { echo "Conflict: the name $2 is in use" >&2; exit 125; }
	mkdir "$job"
	shift 2
	printf "'%s' " $env "$@" > "$job/new"
	mv "$job/new" "$job/words"
	[ ! -e "${job%/*}.mute" ] || { echo 'connection reset' >&2; exit 1; } ;;
exec) # what it runs goes on when this client is killed, and sees the end of its stdin
	[ -e "$job/pid" ] || { echo "No such container: $2" >&2; exit 1; }
	shift 2
	setsid --wait $env "$@" ;;
ps)
	if [ ! -e "$job" ]; then echo ended removed
	elif [ -e "$job/never" ]; then echo never the image does not exist
	elif [ ! -e "$job/pid" ]; then echo pending no free slot
	elif kill -0 "$(cat "$job/pid")" 2>&-; then echo running
	else echo "ended exit code $(cat "$job/code" 2>&- || echo 137)"; fi ;;
stop) kill $(ps -o pid= --ppid "$(cat "$job/pid")") ;;
rm)
	[ ! -e "$job/pid" ] || kill -KILL $(tree "$(cat "$job/pid")") 2>&- || true
	rm -rf "$job" ;;
esac
S
cat > engine.daemon <<S
while [ -d $dir ] && [ ! -e $dir.end ]; do
	for words in $dir/*/words; do
		[ -e \$words ] && [ ! -e $dir.full ] || continue
		cd \${words%/*}
		mv words started
		setsid sh -c 'echo \$\$ > new; mv new pid; eval "\$(cat started)" > log 2>&1; echo \$? > code' &
		cd $dir
	done
	sleep 0.1
done
S
chmod 755 bin/engine
setsid sh engine.daemon > engine.log 2>&1 < /dev/null &
