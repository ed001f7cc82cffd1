package repository

import (
	"context"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/host"
	"github.com/symphony-cron/symphony/runner/host/gitcmd"
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
	base, err := d.output(d.localGit(ctx, "merge-base", "refs/heads/"+d.base, d.Commit))
	if gitcmd.ExitedWith(err, 1) { // no common history: all of the work is new
		look.Unrelated = true
		if len(d.remote.Obeyed) == 0 {
			return look, nil
		}
		list := []string{"ls-tree", "-z", "--name-only", d.Commit, "--"}
		look.Obeyed, err = d.entries(d.localGit(ctx, append(list, d.remote.Obeyed...)...))
		return look, err
	}
	if err != nil {
		return look, err
	}
	raw, err := d.entries(d.localGit(ctx, "diff", "--raw", "-z", "--no-renames", base, d.Commit))
	if err != nil {
		return look, err
	}
	added := map[string]bool{}     // objects of new files
	var links []string             // of the base
	deleted := map[string]string{} // tests, and their objects
	for i := 0; i+1 < len(raw); i += 2 {
		name := raw[i+1]
		obeyed := d.obeyedAt(name)
		isLink := strings.HasPrefix(raw[i], ":120000 ")
		switch {
		case obeyed != "" && !slices.Contains(look.Obeyed, obeyed):
			look.Obeyed = append(look.Obeyed, obeyed)
		case obeyed == "" && isLink:
			links = append(links, name)
		}
		// ":100644 100644 8ab686e 3f2a9c1 M": modes, objects, and what happened
		fields := strings.Fields(raw[i])
		change := fields[4]
		switch {
		case change == "A":
			added[fields[3]] = true
		case !isTest().MatchString(name):
		case change == "D":
			deleted[name] = fields[2]
		default:
			look.ChangedTests = append(look.ChangedTests, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(deleted)) {
		isMoved := added[deleted[name]]
		if !isMoved {
			look.DeletedTests = append(look.DeletedTests, name)
		}
	}
	look.Markers, err = d.findMarkers(ctx, base)
	if err != nil {
		return look, err
	}
	leading, err := d.leadToObeyed(ctx, base, links)
	look.Obeyed = append(look.Obeyed, leading...)
	return look, err
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
func (d *delivery) leadToObeyed(ctx context.Context, commit string, links []string) ([]string, error) {
	links = text.Filter(links, func(name string) bool { return !strings.Contains(name, "\n") })
	if len(links) == 0 {
		return nil, nil
	}
	var obeyed []string
	for _, name := range d.remote.Obeyed {
		for ; name != "."; name = path.Dir(name) {
			obeyed = append(obeyed, name)
		}
	}
	ids, err := d.objectsAt(ctx, commit, slices.Concat(obeyed, links))
	if err != nil {
		return nil, err
	}
	targets := map[string]bool{}
	for _, name := range obeyed {
		targets[ids[name]] = true
	}
	return text.Filter(links, func(name string) bool { return ids[name] != "" && targets[ids[name]] }), nil
}

// objectsAt returns the ids of the objects at paths of a commit, through links within it. What
// is missing there has none.
func (d *delivery) objectsAt(ctx context.Context, commit string, names []string) (map[string]string, error) {
	var asked strings.Builder
	for _, name := range names {
		asked.WriteString(commit + ":" + name + "\n")
	}
	look := d.localGit(ctx, "cat-file", "--follow-symlinks", "--batch-check=%(objectname) found")
	look.Stdin = strings.NewReader(asked.String())
	out, err := d.output(look)
	if err != nil {
		return nil, err
	}
	ids := map[string]string{}
	for _, name := range names {
		var line string
		line, out, _ = strings.Cut(out, "\n")
		id, isFound := strings.CutSuffix(line, " found")
		if isFound {
			ids[name] = id
			continue
		}
		// A link that leads nowhere or out of the commit: "symlink 7", then 7 bytes and a line feed.
		_, length, _ := strings.Cut(line, " ")
		size, err := strconv.Atoi(length)
		if err == nil {
			out = out[min(size+1, len(out)):]
		}
	}
	return ids, nil
}
