package git

import (
	"context"
	"slices"
	"strings"
	"testing"
)

func settings(t *testing.T, text string) []setting {
	t.Helper()
	list, err := parseConfig(t.Context(), []byte(text))
	check(t, err)
	return list
}

// What may stay, and what may not, wherever an agent has set it.
func TestCannotExecute(t *testing.T) {
	t.Parallel()
	dangerous := `
core.hooksPath=x core.fsmonitor=x core.fsmonitor=true core.sshCommand=x core.pager=x core.editor=x core.askPass=x core.gitProxy=x
core.worktree=/etc core.worktree=sub core.attributesFile=x core.excludesFile=x core.alternateRefsCommand=x core.notesRef=x core.sharedRepository=0666
core.protectHFS=false core.protectNTFS=false sequence.editor=x
credential.helper=x credential.https://h.helper=x filter.a.clean=x filter.a.smudge=x filter.a.process=x filter.a.required=true
diff.external=x diff.a.command=x diff.a.textconv=x diff.a.cachetextconv=true diff.tool=x difftool.a.cmd=x diff.guitool=x
merge.a.driver=x merge.tool=x merge.guitool=x mergetool.a.cmd=x mergetool.a.path=x alias.x=y alias.status=y
include.path=x includeIf.gitdir:/.path=x gpg.program=x gpg.ssh.program=x gpg.x509.program=x gpg.ssh.defaultKeyCommand=x gpg.format=ssh
user.signingKey=x commit.gpgSign=true commit.template=x tag.gpgSign=true push.gpgSign=true pager.log=x
url./x.insteadOf=y url./x.pushInsteadOf=y url.https://h.insteadOf=y protocol.allow=always protocol.ext.allow=always
remote.a.uploadpack=x remote.a.receivepack=x remote.a.vcs=x remote.a.proxy=x remote.a.url=/srv/x remote.a.url=../x remote.a.url=x remote.a.url=file:///x
remote.a.url=ext::x remote.a.url=fd::3 remote.a.url=foo://h/x remote.a.url=-oProxyCommand=x remote.a.url=ssh://-oProxyCommand=x remote.a.url=-x:y
remote.a.url=./h:x remote.a.url=/h:x remote.a.pushurl=/x remote.a.url= remote.a.url=https::x
branch.a.remote=/x branch.a.remote=.. branch.a.remote=../x branch.a.remote=unknown branch.a.pushRemote=unknown branch.a.mergeOptions=-sx remote.pushDefault=/x
submodule.a.update=!x submodule.a.url=/x submodule.a.url=../x submodule.a.command=x
gc.recentObjectsHook=x trailer.a.cmd=x trailer.a.command=x browser.a.cmd=x web.browser=x help.browser=x man.a.cmd=x man.viewer=x
sendemail.smtpServer=x sendemail.a.toCmd=x imap.tunnel=x instaweb.httpd=x interactive.diffFilter=x guitool.a.cmd=x gui.a=b
lfs.customtransfer.a.path=x lfs.standalonetransferagent=x lfs.extension.a.clean=x lfs.url=file:///x lfs.https://h.standalonetransferagent=x
uploadpack.packObjectsHook=x receive.procReceiveRefs=x receive.denyCurrentBranch=ignore hook.a.command=x hook.a.event=x tar.a.command=x
extensions.partialClone=/x extensions.unheardOf=x ssh.variant=x http.proxy=x http.sslVerify=false http.sslCert=x
pull.twohead=x pull.octopus=x rebase.instructionFormat=x sparse.expectFilesOutsideOfPatterns=x maintenance.repo=x scalar.repo=x
bundle.a.uri=x fetch.bundleURI=x transfer.bundleURI=true init.templateDir=x notes.rewriteRef=x safe.directory=* blame.a.b=c branch.a.b=c
unheard.of=x`
	fine := `
core.bare=false core.repositoryFormatVersion=0 core.fileMode=true core.logAllRefUpdates=true core.autocrlf=input core.sparseCheckout=true
user.name=x user.email=x branch.a.remote=origin branch.a.remote=. branch.a.pushRemote=origin branch.a.merge=refs/heads/a branch.a/b.c.rebase=true branch.autoSetupMerge=always
remote.a.url=https://h/x remote.a.url=http://h/x remote.a.url=ssh://git@h/x remote.a.url=git@h:x/y.git remote.a.url=host.of.mine:y remote.a.pushurl=https://h/x
remote.a.fetch=+refs/heads/*:refs/remotes/a/* remote.a.tagOpt=--no-tags remote.a.promisor=true remote.pushDefault=origin remote.a.gh-resolved=base
extensions.partialClone=origin extensions.objectFormat=sha1 extensions.worktreeConfig=true
submodule.a.url=https://h/x submodule.a.active=true submodule.a.update=rebase submodule.active=. color.ui=false color.branch.current=red advice.detachedHead=false
pull.rebase=true push.default=current merge.conflictStyle=zdiff3 init.defaultBranch=main rerere.enabled=true gc.auto=0
lfs.repositoryFormatVersion=0 lfs.https://h/x.access=basic status.short=true log.date=iso i18n.commitEncoding=x`
	rules := configRules{tree: "/ws", remotes: map[string]bool{"origin": true}}
	for text, want := range map[string]bool{dangerous: false, fine: true} {
		for _, kv := range strings.Fields(text) {
			key, value, _ := strings.Cut(kv, "=")
			first, last := strings.Index(key, "."), strings.LastIndex(key, ".")
			s := setting{section: strings.ToLower(key[:first]), name: strings.ToLower(key[last+1:]), value: value}
			if last > first {
				s.sub = key[first+1 : last]
			}
			if got := rules.cannotExecute(s); got != want {
				t.Errorf("%s: harmless %v", kv, got)
			}
		}
	}
	rules.module = "/ws/.git/modules/a"
	for value, want := range map[string]bool{"../../../a": true, "../../../../other": false, "/ws/a": true, "/etc": false, "../../..": false} {
		if got := rules.cannotExecute(setting{section: "core", name: "worktree", value: value}); got != want {
			t.Errorf("core.worktree %s of a module: harmless %v", value, got)
		}
	}
}

// A configuration that was trusted comes out of it as it was, with all that an agent may set.
func TestSettle(t *testing.T) {
	t.Parallel()
	const was = "[core]\n\tbare = false\n[alias]\n\ta = 1\n\tb = 2\n"
	for _, c := range []struct {
		name, now, want string
		changed         []string
	}{
		{"as it was", was, was, nil},
		{"harmless", was + "[user]\n\tname = x\n", was + "[user]\n\tname = x\n", nil},
		{"harmless ones gone", "[alias]\n\ta = 1\n\tb = 2\n", "[alias]\n\ta = 1\n\tb = 2\n", nil},
		{"added", was + "[pager]\n\tlog = x\n", was, []string{"pager.log"}},
		{"added twice", was + "[alias]\n\ta = 1\n", was, []string{"alias.a"}},
		{"changed", strings.Replace(was, "a = 1", "a = 3", 1), was, []string{"alias.a"}},
		{"gone", strings.Replace(was, "\ta = 1\n", "", 1), was, []string{"alias.a"}},
		{"in another order", "[core]\n\tbare = false\n[alias]\n\tb = 2\n\ta = 1\n", was, []string{"the order of its entries"}},
		{"no configuration", was + "[", was, []string{"config"}},
		{"a subsection without a name", was + "[user \"\"]\n\tname = x\n", was, []string{"config"}},
		{"both", was + "[user]\n\tname = x\n[pager]\n\tlog = x\n", was + "[user]\n\tname = x\n", []string{"pager.log"}},
		{
			"a branch at a remote that goes", was + "[remote \"r\"]\n\turl = /x\n[branch \"b\"]\n\tremote = r\n\tmerge = m\n",
			was + "[branch \"b\"]\n\tmerge = m\n",
			[]string{"remote.r.url", "branch.b.remote"},
		},
	} {
		got, changed, err := settleConfig(t.Context(), []byte(c.now), []byte(was), "config")
		check(t, err)
		if string(got) != c.want || !slices.Equal(changed, c.changed) {
			t.Errorf("%s: %q\n%s", c.name, changed, got)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got, _, err := settleConfig(ended, []byte("[a]\nb\n"), nil, "config"); err == nil {
		t.Errorf("no error with the time over, but %q", got)
	}
	for _, secret := range settings(t, "[url \"https://user:secret@h\"]\n\tinsteadOf = x\n[credential \"https://user:secret@h\"]\n\thelper = y\n") {
		if name := secret.String(); strings.Contains(name, "secret") {
			t.Errorf("a password in %q", name)
		}
	}
}

// Without git the trusted configuration is put back.
func TestSettleWithoutGit(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	got, changed, err := settleConfig(t.Context(), []byte("[user]\n\tname = x\n"), []byte("[core]\n"), "config")
	if string(got) != "[core]\n" || !slices.Equal(changed, []string{"config"}) || err != nil {
		t.Errorf("%q, %q, %v", got, changed, err)
	}
}
