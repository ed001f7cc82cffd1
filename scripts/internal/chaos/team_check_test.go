//go:build linux

package chaos

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/scripts/internal/stage"
	"github.com/symphony-cron/symphony/team"
)

// change is a change of a claim or of another reference of the remote.
type change struct {
	before, after int64 // when it was not made yet, and when it was, in milliseconds
	old, new, ref string
}

// checkLog checks all changes of references of the remote: each delivery has to be in one push with the
// claim of its machine, and a machine may take another one's claim only after its term and the grace.
func (s *teamScene) checkLog() {
	data := stage.Get(os.ReadFile(s.log()))
	pushed := map[string]int64{} // when an object was no claim yet
	claimed := held{}
	for push := range strings.SplitSeq(string(data), "\n\n") {
		var claims, branches []change
		for line := range strings.Lines(push) {
			w := strings.Fields(line)
			if len(w) != 5 {
				continue
			}
			c := change{
				before: stage.Get(strconv.ParseInt(w[0], 10, 64)),
				after:  stage.Get(strconv.ParseInt(w[1], 10, 64)),
				old:    w[2],
				new:    w[3],
				ref:    w[4],
			}
			switch {
			case c.ref == claimsBranch:
				claims = append(claims, s.changesOnBranch(c)...)
			case strings.HasPrefix(c.ref, claimsRefs):
				claims = append(claims, c)
			case strings.HasPrefix(c.ref, "refs/heads/symphony/"):
				branches = append(branches, c)
			}
		}
		for _, c := range claims {
			s.note(claimed, c)
			if pushed[c.new] == 0 { // else a person has put an older claim back
				pushed[c.new] = c.before
				s.checkTaken(c, pushed)
			}
		}
		for _, b := range branches {
			s.checkDelivery(b, claims)
		}
	}
	for issue, since := range claimed {
		s.checkStarts(issue, since, math.MaxInt64)
	}
}

// changesOnBranch are the changes of claims between two commits of their branch.
func (s *teamScene) changesOnBranch(c change) (list []change) {
	tree := func(commit string) string {
		if isNone(commit) {
			return emptyTree
		}
		return commit
	}
	text, err := s.remote.run("diff-tree", "-r", "--no-renames", tree(c.old), tree(c.new))
	stage.Must(err)
	for line := range strings.Lines(text) {
		w := strings.Fields(line) // ":MODE MODE OLD NEW KIND NAME"
		if len(w) != 6 {
			stage.Must(fmt.Errorf("git diff-tree prints %q", line))
		}
		list = append(list, change{before: c.before, after: c.after, old: w[2], new: w[3], ref: w[5]})
	}
	return list
}

// isNone reports whether the id of an object stands for none.
func isNone(id string) bool { return strings.Trim(id, "0") == "" }

// claimIn returns the claim in an object; nil for none.
func (s *teamScene) claimIn(object string) *team.Claim {
	if isNone(object) {
		return nil
	}
	if s.read[object] == nil {
		content := stage.Get(s.remote.run("cat-file", "-p", object))
		at := strings.IndexByte(content, '{') // after the head of a commit, if it is one
		c := stage.Get(team.Parse(content[max(at, 0):]))
		s.read[object] = &c
	}
	return s.read[object]
}

func (s *teamScene) checkTaken(c change, pushed map[string]int64) {
	before := s.claimIn(c.old)
	after := s.claimIn(c.new)
	if before == nil || after == nil || before.Machine == after.Machine {
		return
	}
	s.taken++
	age := (c.after - pushed[c.old]) * teamHaste
	for _, at := range s.jumps {
		if pushed[c.old] < at && at < c.after {
			age += jump.Milliseconds()
		}
	}
	if age < before.TermMS+before.TermMS/10 {
		s.fault("claims taken too early", "%s from %s by %s after %d ms of its %d",
			before.Identifier, before.Machine, after.Machine, age, before.TermMS)
	}
}

func (s *teamScene) checkDelivery(b change, claims []change) {
	s.pushes++
	if !commits(s.remote.git, b.ref)[b.new] {
		s.fault("deliveries pushed over", "%s of %s", b.new, b.ref)
	}
	for _, c := range claims {
		before := s.claimIn(c.old)
		after := s.claimIn(c.new)
		isIts := after != nil && "refs/heads/symphony/"+after.Identifier == b.ref
		if isIts && (before == nil || before.Machine == after.Machine) {
			return
		}
	}
	s.fault("deliveries without the claim", "%s at %d", b.ref, b.after)
}

// checkCommits checks that each commit of an agent is in the remote or in a workspace.
func (s *teamScene) checkCommits() {
	has := commits(s.remote.git, "--all")
	for _, m := range s.machines {
		for _, pattern := range []string{"*/.git", ".symphony/trash/*/.git"} {
			for _, git := range stage.Get(filepath.Glob(filepath.Join(m.Dir, "workspaces", pattern))) {
				maps.Copy(has, commits(git, "--all", "HEAD"))
			}
		}
	}
	for _, i := range s.tracker.Issues() {
		for _, made := range s.made(i.Identifier) {
			if !has[made.id] {
				s.fault("commits lost", "%s of %s", made.id, i.Identifier)
			}
		}
	}
	list := stage.Get(s.remote.run("for-each-ref", "--format=%(refname)", "refs/heads/symphony"))
	for _, branch := range strings.Fields(list) {
		seen := map[string]bool{}
		for subject := range strings.Lines(stage.Get(s.remote.run("log", "--no-merges", "--format=%s", branch))) {
			if seen[subject] {
				s.fault("commits delivered twice", "%s: %s", branch, subject)
			}
			seen[subject] = true
		}
	}
}
