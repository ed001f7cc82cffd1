# A real docker or podman ($ENGINE) of its own below containers, with an image named agents, which is made of programs of this machine:
# nothing is pulled. Its containers have no network. containers/down ends it. bin has the client.
dir=$PWD/containers
mkdir -p bin $dir/image/tmp $dir/image/sbin $dir/image/etc $dir/image/usr/bin
image=$dir/image

# The programs that a host needs, and the libraries of each. Agents start theirs by its path on this machine.
for name in bash sh env git cat chmod cp dirname id ls mkdir mv ps rm sed sleep sort tail touch uname wc symphony fake-codex; do
	path=$(command -v $name)
	cp -L $path $image/usr/bin/$name
	ldd $path 2>/dev/null | grep -o '/[^ )]*' | sort -u | while read -r library; do cp --parents -L $library $image; done
done
ln -s git $image/usr/bin/git-upload-pack
ln -s usr/bin $image/bin
mkdir -p $image$(dirname $path) $image$CODEX_HOME
ln -s /usr/bin/fake-codex $image$path
echo 'root:x:0:0:root:/root:/bin/bash' > $image/etc/passwd
echo 'root:x:0:' > $image/etc/group

case $ENGINE in
docker)
	runroot=$(mktemp -d /tmp/docker-XXXXXX) # the path of a socket has at most 104 characters
	client="$(command -v docker) --host unix://$runroot/socket"
	cat > $dir/up <<S
dockerd --host unix://$runroot/socket --data-root $dir/data --exec-root $runroot/exec --pidfile $dir/pid --bridge none \\
	--iptables=false --ip6tables=false --ip-forward=false --ip-masq=false >> $dir/log 2>&1 < /dev/null &
until $client info > $dir/info 2>&1; do
	kill -0 \$! 2>&- || { tail -n 3 $dir/log >&2; exit 1; }
	sleep 0.1
done
S
	;;
podman)
	runroot=$(mktemp -d /tmp/podman-XXXXXX) # podman allows 50 characters
	cat > $dir/containers.conf <<S
[containers]
netns = "none"
default_ulimits = ["nofile=1024:4096", "nproc=20000:20000"]
init_path = "$(command -v docker-init || command -v tini)"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
S
	client="env CONTAINERS_CONF=$dir/containers.conf $(command -v podman) --root $dir/data --runroot $runroot --tmpdir $dir/tmp"
	: > $dir/up ;;
esac
printf '#!/bin/sh\nexec %s "$@"\n' "$client" > bin/$ENGINE
chmod 755 bin/$ENGINE
cat > $dir/down <<S
$client ps --all --quiet | while read -r id; do $client rm --force \$id > $dir/removed; done
if [ -e $dir/pid ]; then
	pid=\$(cat $dir/pid)
	kill \$pid
	while kill -0 \$pid 2>&-; do sleep 0.1; done
fi
grep -o -e " $dir/[^ ]*" -e " ${runroot:-$dir}/[^ ]*" /proc/mounts | while read -r mount; do umount --lazy \$mount; done
rm -rf $runroot
S
sh -e $dir/up
tar --create --directory $image . | $client import - agents
