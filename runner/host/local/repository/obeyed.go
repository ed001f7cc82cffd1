package repository

import (
	"context"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/host"
)

// changesObeyed returns the paths that decide what symphony runs and that the commit changes,
// compared with where it left the base. A link that leads to one of them counts, too: passes may
// find WORKFLOW.md by it.
func (d *delivery) changesObeyed(ctx context.Context) ([]string, error) {
	if d.Commit == "" || len(d.remote.Obeyed) == 0 {
		return nil, nil
	}
	changed, err := d.obeyedChanges(ctx)
	return changed, d.failed(host.CodeDeliveryFailed, "look for changes of "+d.remote.Obeyed[0], err)
}

func (d *delivery) obeyedChanges(ctx context.Context) ([]string, error) {
	base, err := d.output(d.localGit(ctx, "merge-base", "refs/heads/"+d.base, d.Commit))
	if err != nil { // no common history: all of the work is new
		list := []string{"ls-tree", "-z", "--name-only", d.Commit, "--"}
		return d.entries(d.localGit(ctx, append(list, d.remote.Obeyed...)...))
	}
	raw, err := d.entries(d.localGit(ctx, "diff", "--raw", "-z", "--no-renames", base, d.Commit))
	if err != nil {
		return nil, err
	}
	var list []string
	var links []string // of the base
	for i := 0; i+1 < len(raw); i += 2 {
		name := raw[i+1]
		obeyed := d.obeyedAt(name)
		isLink := strings.HasPrefix(raw[i], ":120000 ")
		switch {
		case obeyed != "" && !slices.Contains(list, obeyed):
			list = append(list, obeyed)
		case obeyed == "" && isLink:
			links = append(links, name)
		}
	}
	leading, err := d.leadToObeyed(ctx, base, links)
	return append(list, leading...), err
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
