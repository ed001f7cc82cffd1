package repository

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/host"
)

// A delivery names the files that decide what symphony runs and that the work changes: the file
// itself, links to it and to directories above it, and what stands in their place.
func TestObeyed(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.sh(`cd person; mkdir -p shared/conf bin
		echo go > shared/conf/shop.md; echo other > other.md; touch bin/tool
		ln -s shared/conf ops; ln -s ops/shop.md WORKFLOW.md; ln -s WORKFLOW.md again; ln -s nowhere none
		ln -s ../../etc "out
side"; ln -s bin tools; ln -s other.md plain
		git add .; git commit -qm conf; git push -q origin HEAD:main`)
	p.mustClone("one")
	base := p.sh("git -C one rev-parse HEAD")
	obeyed := []string{"shared/conf/shop.md", "bin/new"}
	for _, c := range []struct {
		name, change string
		want         []string
	}{
		{"something else", "echo more > other.md; ln -sfn shared none; ln -sfn / plain", nil},
		{"the file", "echo more >> shared/conf/shop.md", []string{"shared/conf/shop.md"}},
		{"the link to it", "ln -sfn other.md WORKFLOW.md", []string{"WORKFLOW.md"}},
		{"a link to that link", "git rm -q again; echo evil > again", []string{"again"}},
		{"the directory on the way", "ln -sfn bin ops", []string{"ops"}},
		{"a directory instead of a link", "git rm -q ops; mkdir ops; echo evil > ops/shop.md", []string{"ops"}},
		{"a directory instead of the file", "rm shared/conf/shop.md; mkdir shared/conf/shop.md; touch shared/conf/shop.md/a", obeyed[:1]},
		{"a link instead of its directory", "git rm -qr shared; ln -s bin shared", obeyed[:1]},
		{"a program that was missing", "echo evil > bin/new", []string{"bin/new"}},
		{"a link to the directory of that", "ln -sfn / tools", []string{"tools"}},
	} {
		p.sh("cd one; git reset -q --hard " + base + "; " + c.change + "; git add -A; git commit -qm work")
		answer, err := p.mirrorOf(host.Repository{URL: p.remote, Obeyed: obeyed}).
			DeliverWorkspace(t.Context(), filepath.Join(p.dir, "one"), host.Origin{URL: p.remote}, host.DeliverRequest{
				Branch:    "work/one",
				Delivered: p.sh("git -C remote.git rev-parse -q --verify work/one || true"),
			})
		test.OK(t, err)
		test.Equal(t, c.name, answer.Obeyed, c.want)
	}
	p.sh("cd one; git checkout -q --orphan new; git rm -rqf .; mkdir bin; touch bin/new; git add .; git commit -qm new")
	answer, err := p.mirrorOf(host.Repository{URL: p.remote, Obeyed: obeyed}).
		DeliverWorkspace(t.Context(), filepath.Join(p.dir, "one"), host.Origin{URL: p.remote}, host.DeliverRequest{
			Branch: "work/new",
		})
	test.OK(t, err)
	test.Equal(t, "without a common history", answer.Obeyed, text.Filter(obeyed, func(one string) bool { return one == "bin/new" }))
}

// A delivery names the changed files that a check may run or obey. No shell is read for that.
func TestProof(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.sh(`cd person; mkdir -p web impl hooks
		echo true > web/check; echo all: > impl/rules.txt; ln -s impl/rules.txt Makefile; ln -s hooks .husky
		echo a > hooks/pre.txt; echo a > main.go; echo a > main_test.go; echo a > old.cfg; ln -s main.go plain.txt
		printf '#!/bin/sh\n' > go.txt; echo a > web/rule.py; echo a > README; git add .; git commit -qm proof; git push -q origin HEAD:main`)
	p.mustClone("one")
	base := p.sh("git -C one rev-parse HEAD")
	for _, c := range []struct{ name, command, change, want string }{
		{"sources and tests", "go test ./...", "echo b > main.go; echo b > main_test.go; echo '#![allow(x)]' > a.rs; echo b > README", ""},
		{"a name without an extension", `d=web; cd "$PWD/$d" && sh chec?`, "echo b > web/check", "web/check"},
		{"a name in the command", "python3 web/rule.py", "echo b > web/rule.py", "web/rule.py"},
		{"a part of a name in the command", "python3 -m web.rule", "echo b > web/rule.py", "web/rule.py"},
		{"no command", "", "echo b > web/rule.py", ""},
		{"a program", "make", "echo b > tool.py; chmod +x tool.py; chmod +x main.go", "main.go tool.py"},
		{"a program no longer", "make", "chmod +x main.go; git add .; git commit -qm x; chmod -x main.go; echo b > b.py", ""},
		{"a script that is not executable", "make", "echo more >> go.txt; printf 'a\\n#!/bin/sh\\n' > a.txt", "go.txt"},
		{"a script that was", "make", "echo true > go.txt; printf '#!\\t/bin/sh' > new.txt", "go.txt new.txt"},
		{
			"settings", "make", "mkdir -p .github x; touch .github/a x/package.json x/B.KTS; git rm -q old.cfg",
			".github/a old.cfg x/B.KTS x/package.json",
		},
		{"what a link of such a name leads to", "make", "echo b > impl/rules.txt", "impl/rules.txt"},
		{"below a link of such a name", "make", "echo b > hooks/pre.txt", "hooks/pre.txt"},
		{"a link", "make", "ln -sfn web plain.txt", "plain.txt"},
		{"a name with a line feed", "make", "echo b > 'a\nb'", "a\nb"},
	} {
		p.sh("cd one; git reset -q --hard " + base + "; " + c.change + "; git add -A; git commit -qm work")
		answer, err := p.mirrorOf(host.Repository{URL: p.remote}).
			DeliverWorkspace(t.Context(), filepath.Join(p.dir, "one"), host.Origin{URL: p.remote}, host.DeliverRequest{
				Branch:    "work/one",
				Delivered: p.sh("git -C remote.git rev-parse -q --verify work/one || true"),
				Commands:  c.command,
			})
		test.OK(t, err)
		test.Equal(t, c.name, strings.Join(answer.Proof, " "), c.want)
	}

	// The history is merged crosswise: of two bases one has the rule that the work brings back.
	p.sh(`cd person; git checkout -q -b strict; echo strict > web/rule.py; git commit -qam strict
		git checkout -q -b other HEAD^; git commit -q --allow-empty -m other
		git checkout -q main; git merge -q --no-ff -m other other; git merge -q --no-ff -m strict strict
		git push -q origin main strict other`)
	p.mustClone("two")
	p.sh(`cd two; git reset -q --hard origin/other; git merge -q --no-ff -m two origin/strict
		git checkout -q origin/other -- web/rule.py; git commit -qm work`)
	answer, err := p.mirrorOf(host.Repository{URL: p.remote, Obeyed: []string{"web/rule.py"}}).
		DeliverWorkspace(t.Context(), filepath.Join(p.dir, "two"), host.Origin{URL: p.remote}, host.DeliverRequest{
			Branch:   "work/two",
			Commands: "python3 web/rule.py",
		})
	test.OK(t, err)
	test.Equal(t, "crosswise", strings.Join(answer.Proof, " ")+strings.Join(answer.Obeyed, " "), "web/rule.pyweb/rule.py")
}
