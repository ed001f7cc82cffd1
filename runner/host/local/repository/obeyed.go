package repository

import (
	"context"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/gitcmd"
	"github.com/symphony-cron/symphony/runner/host/local/git"
)

// look compares the commit with where it left the base. A link that leads to a path of Obeyed
// counts as one: passes may find WORKFLOW.md by it.
func (d *delivery) look(ctx context.Context) (look host.Look, err error) {
	if d.Commit == "" {
		return look, nil
	}
	look, err = d.lookSinceBase(ctx)
	return look, d.failed(host.CodeDeliveryFailed, "look at the changes of the commits", err)
}

func (d *delivery) lookSinceBase(ctx context.Context) (look host.Look, err error) {
	ask := d.ask(ctx)
	bases, err := git.MergeBases(ask, "refs/heads/"+d.base, d.Commit)
	if err != nil {
		return look, err
	}
	if len(bases) == 0 { // no common history: all of the work is new
		look.Unrelated = true
		look.Proof = []string{"."}
		if len(d.remote.Obeyed) == 0 {
			return look, nil
		}
		list := []string{"ls-tree", "-z", "--name-only", d.Commit, "--"}
		look.Obeyed, err = d.entries(d.localGit(ctx, append(list, d.remote.Obeyed...)...))
		return look, err
	}
	for _, base := range bases {
		if err := d.lookSince(ctx, ask, base, &look); err != nil {
			return look, err
		}
	}
	for _, list := range []*[]string{&look.Obeyed, &look.ChangedTests, &look.DeletedTests, &look.Markers, &look.Proof} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return look, nil
}

// lookSince adds what the commit changed since one of the commits at which it left the base.
func (d *delivery) lookSince(ctx context.Context, ask git.Ask, base string, look *host.Look) error {
	changed, err := git.ReadChanges(ask, base, d.Commit)
	if err != nil {
		return err
	}
	added := map[string]bool{}     // objects of new files
	var links []string             // of the base
	deleted := map[string]string{} // tests, and their objects
	for _, c := range changed.Files {
		obeyed := d.obeyedAt(c.Name)
		switch {
		case obeyed != "":
			look.Obeyed = append(look.Obeyed, obeyed)
		case c.OldMode == "120000":
			links = append(links, c.Name)
		}
		switch {
		case c.IsNew:
			added[c.Object] = true
		case !isTest().MatchString(c.Name):
		case c.WasDeleted:
			deleted[c.Name] = c.OldObject
		default:
			look.ChangedTests = append(look.ChangedTests, c.Name)
		}
	}
	for name, object := range deleted {
		isMoved := added[object]
		if !isMoved {
			look.DeletedTests = append(look.DeletedTests, name)
		}
	}
	markers, err := d.findMarkers(ctx, base)
	if err != nil {
		return err
	}
	look.Markers = append(look.Markers, markers...)
	proof, err := git.ProofFiles(ask, changed, d.commands)
	if err != nil {
		return err
	}
	look.Proof = append(look.Proof, proof...)
	leading, err := d.leadToObeyed(ask, base, links)
	look.Obeyed = append(look.Obeyed, leading...)
	return err
}

// ask returns what asks git in the mirror.
func (d *delivery) ask(ctx context.Context) git.Ask {
	return func(stdin string, args ...string) (string, error) {
		cmd := d.localGit(ctx, args...)
		cmd.Stdin = strings.NewReader(stdin)
		cmd.Env = append(cmd.Env, "GIT_LITERAL_PATHSPECS=1")
		return d.output(cmd)
	}
}

// isTest matches the paths of tests and of what they read: test/a.py, a_test.go, test_a.py,
// a.spec.ts, ATest.java.
var isTest = text.Pattern(`(?i)(?:^|/)(?:tests?|__tests__|specs?|testdata)/|(?:^|/)test_[^/]*$|` +
	`[._-](?:test|spec)s?\.[^/]+$|(?-i:Tests?\.[a-z]+$)`)

// marks matches a line that git leaves where a merge conflicts. A line of = could be under a
// heading, too.
const marks = "^(<<<<<<<|>>>>>>>) "

// findMarkers returns the files with marks of a merge that the commit has added since base.
func (d *delivery) findMarkers(ctx context.Context, base string) ([]string, error) {
	diff := []string{"diff", "--name-only", "-z", "--no-renames", "--diff-filter=d", "-G" + marks}
	changed, err := d.entries(d.localGit(ctx, append(diff, base, d.Commit)...))
	if err != nil || len(changed) == 0 {
		return nil, err
	}
	grep := d.localGit(ctx, append([]string{"grep", "-lzIE", marks, d.Commit, "--"}, changed...)...)
	grep.Env = append(grep.Env, "GIT_LITERAL_PATHSPECS=1")
	found, err := d.entries(grep)
	if gitcmd.ExitedWith(err, 1) { // only lines with marks were removed
		return nil, nil
	}
	cut := func(name string) string { return strings.TrimPrefix(name, d.Commit+":") }
	return text.Map(found, cut), err
}

// obeyedAt returns that of the paths which decide what symphony runs that a path is, or is below:
// a link may have become a directory. It is empty if there is none.
func (d *delivery) obeyedAt(name string) string {
	for _, obeyed := range d.remote.Obeyed {
		if name == obeyed || strings.HasPrefix(name, obeyed+"/") {
			return obeyed
		}
	}
	return ""
}

// leadToObeyed returns the links of a commit that lead to a path which decides what symphony
// runs, or to a directory above it. They lead to the same object there.
func (d *delivery) leadToObeyed(ask git.Ask, commit string, links []string) ([]string, error) {
	links = text.Filter(links, func(name string) bool { return !strings.Contains(name, "\n") })
	if len(links) == 0 {
		return nil, nil
	}
	obeyed := git.Above(d.remote.Obeyed)
	ids, err := git.ObjectsAt(ask, commit, slices.Concat(obeyed, links))
	if err != nil {
		return nil, err
	}
	targets := map[string]bool{}
	for _, name := range obeyed {
		targets[ids[name]] = true
	}
	return text.Filter(links, func(name string) bool { return ids[name] != "" && targets[ids[name]] }), nil
}
