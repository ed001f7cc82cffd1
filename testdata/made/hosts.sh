# Two hosts, near and far, behind a real ssh server on this machine, each with a home of its own. ssh reaches them by its configuration.
# While hosts/near.down exists, near can't be reached. hosts/near.slow has the words of a command that slows its links.
mkdir hosts bin
cd hosts
ssh-keygen -q -t ed25519 -N '' -f host
ssh-keygen -q -t ed25519 -N '' -f key
cp key.pub authorized
for h in near far; do
	mkdir $h
	echo "$h $(cat host.pub)" >> known
	cat > server-$h <<S
HostKey $PWD/host
AuthorizedKeysFile $PWD/authorized
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
PidFile none
SetEnv HOME=$PWD/$h XDG_STATE_HOME= XDG_CACHE_HOME= PATH=$PWD/$h/bin:$PATH TMPDIR=$TMPDIR WORK=$WORK HOST_NAME=$h SYMPHONY_TEST_MARK=$SYMPHONY_TEST_MARK
S
	cat >> client <<S
Host $h
  ProxyCommand sh -c 'test ! -e $PWD/$h.down && exec \$(cat $PWD/$h.slow 2>/dev/null) /usr/sbin/sshd -i -f $PWD/server-$h -E $PWD/log'
S
done
cat >> client <<S
Host gone
  ProxyCommand false
Host *
  IdentityFile $PWD/key
  IdentitiesOnly yes
  UserKnownHostsFile $PWD/known
  GlobalKnownHostsFile none
S
printf '#!/bin/sh\nexec %s -F %s "$@"\n' "$(command -v ssh)" "$PWD/client" > ../bin/ssh
chmod 755 ../bin/ssh
