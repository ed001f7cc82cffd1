//go:build linux

package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/scripts/internal/stage"
	"github.com/symphony-cron/symphony/team"
)

const (
	// claimsRefs begins the names of claims that are references.
	claimsRefs = "refs/symphony/claims/"
	// claimsBranch is the branch of claims that are files, and claimFile ends the names of these.
	claimsBranch = "refs/heads/symphony-claims"
	claimFile    = ".json"
	// emptyTree is the id of a tree without files.
	emptyTree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
)

// claims returns the claims in the remote, of the team's project and of the other one: their objects by
// key.
func (s *teamScene) claims() (ours, others map[string]string) {
	args := []string{"for-each-ref", "--format=%(objectname)\t%(refname)", claimsRefs}
	if s.onBranch {
		args = []string{"ls-tree", "--format=%(objectname)\t%(path)", claimsBranch}
	}
	list, err := s.remote.run(args...)
	if err != nil && s.onBranch { // a person has deleted the branch
		list = ""
	}
	ours = map[string]string{}
	others = map[string]string{}
	for line := range strings.Lines(list) {
		object, name, _ := strings.Cut(strings.TrimSpace(line), "\t")
		key := strings.TrimSuffix(strings.TrimPrefix(name, claimsRefs), claimFile)
		if s.others[key] {
			others[key] = object
		} else {
			ours[key] = object
		}
	}
	return ours, others
}

func (s *teamScene) ourClaims() map[string]string {
	ours, _ := s.claims()
	return ours
}

// addOtherClaims adds claims of another project.
func (s *teamScene) addOtherClaims() {
	path := filepath.Join(s.remote.dir, "claim")
	object := ""
	var refs, files strings.Builder
	for n := range otherClaims {
		c := team.Claim{
			Token:      fmt.Sprint("other-", n),
			Machine:    "elsewhere",
			Project:    "another project",
			IssueID:    fmt.Sprint(n),
			Identifier: fmt.Sprint("OTHER-", n),
			Origin:     fmt.Sprint("another.example ", n),
			Status:     team.Working,
			TermMS:     time.Hour.Milliseconds(),
		}
		if n%100 == 0 { // some objects for all of them
			stage.Must(os.WriteFile(path, []byte(c.Content()), 0o600))
			object = stage.Get(s.remote.run("hash-object", "-w", path))
		}
		key := team.Key(c.Origin)
		s.others[key] = true
		fmt.Fprintf(&refs, "create %s %s\n", claimsRefs+key, object)
		fmt.Fprintf(&files, "100644 blob %s\t%s\n", object, key+claimFile)
	}
	if s.onBranch {
		stage.Must(s.commitFiles(files.String(), ""))
		return
	}
	stage.Get(s.remote.feed(refs.String(), "update-ref", "--stdin"))
}

// commitFiles makes the branch of the claims have files, given as git ls-tree lists them.
func (s *teamScene) commitFiles(files, tip string) error {
	tree, err := s.remote.feed(files, "mktree")
	if err != nil {
		return err
	}
	args := []string{"commit-tree", tree, "-m", "by a person"}
	if tip != "" {
		args = append(args, "-p", tip)
	}
	commit, err := s.remote.run(args...)
	if err != nil {
		return err
	}
	_, err = s.remote.run("update-ref", claimsBranch, commit, tip)
	return err
}

// feed runs git in the remote repository with an input.
func (r *remote) feed(input string, args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{
		"--git-dir", r.git, "-c", "user.name=Other", "-c", "user.email=other@example.com",
	}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.Output()
	if failed, is := errors.AsType[*exec.ExitError](err); is {
		err = fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, failed.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// eraser is a person who deletes claims.
func (s *teamScene) eraser(ctx context.Context) error {
	random := s.random("eraser")
	for pause(ctx, time.Duration(2000+random.IntN(5000))*time.Millisecond) {
		keys := slices.Sorted(maps.Keys(s.ourClaims()))
		if len(keys) == 0 {
			continue
		}
		if s.erase(keys[random.IntN(len(keys))], random) == nil {
			s.count(&s.erased) // else a machine was faster
		}
	}
	return nil
}

func (s *teamScene) erase(key string, random *rand.Rand) error {
	if !s.onBranch {
		_, err := s.remote.run("update-ref", "-d", claimsRefs+key)
		return err
	}
	tip, err := s.remote.run("rev-parse", "--verify", "-q", claimsBranch)
	if err != nil {
		return err
	}
	switch random.IntN(12) {
	case 0: // everything
		clear(s.others)
		_, err = s.remote.run("update-ref", "-d", claimsBranch, tip)
		return err
	case 1: // what others have written since
		earlier, err := s.remote.run("rev-parse", "--verify", "-q", fmt.Sprint(tip, "~", 1+random.IntN(3)))
		if err != nil {
			return err
		}
		_, err = s.remote.run("update-ref", claimsBranch, earlier, tip)
		return err
	}
	files, err := s.remote.run("ls-tree", tip)
	if err != nil {
		return err
	}
	var rest strings.Builder
	for line := range strings.Lines(files + "\n") {
		if !strings.Contains(line, key) {
			rest.WriteString(line)
		}
	}
	return s.commitFiles(rest.String(), tip)
}

// refuser lets the remote refuse claims now and then, as a hook does that allows branches alone.
func (s *teamScene) refuser(ctx context.Context) error {
	random := s.random("refuser")
	for pause(ctx, time.Duration(3+random.IntN(40))*time.Second) {
		if err := os.WriteFile(s.refusalFile(), nil, 0o600); err != nil {
			return err
		}
		pause(ctx, time.Duration(500+random.IntN(8000))*time.Millisecond)
		if err := os.Remove(s.refusalFile()); err != nil {
			return err
		}
		s.count(&s.refusals)
	}
	return nil
}

// refusalFile exists while the remote refuses claims, stormFile while it fails in other ways.
func (s *teamScene) refusalFile() string { return filepath.Join(s.remote.dir, "refuse") }

func (s *teamScene) stormFile() string { return filepath.Join(s.remote.dir, "storm") }

// teamLog notes each change of a reference of the remote: "BEFORE AFTER OLD NEW REF", with a time in
// milliseconds before it and one after it, and an empty line after each transaction. In a storm the
// remote sometimes dies afterwards.
const teamLog = `#!/bin/bash
now=$(date +%%s%%3N)
[ "$1" = prepared ] && echo $now > %[2]s.$PPID
[ "$1" = committed ] || exit 0
before=$(cat %[2]s.$PPID)
printf '%%s\n\n' "$(while read -r line; do echo "$before $now $line"; done)" >> %[1]s
rm %[2]s.$PPID
[ -e %[3]s ] && [ $((RANDOM %% 8)) = 0 ] && kill -KILL $PPID
exit 0
`

// teamRefusals refuses claims while a file exists. In a storm the remote also refuses other pushes, takes
// long, or hangs.
const teamRefusals = `#!/bin/bash
changes=$(cat)
[ -e %[2]s ] && [[ $changes = *symphony/claims/* || $changes = *symphony-claims* ]] && echo branches only && exit 1
[ -e %[1]s ] || exit 0
case $((RANDOM %% 12)) in
0 | 1) echo no space for you; exit 1 ;;
2) sleep 2 ;;
3) while [ -e %[1]s ]; do sleep 0.2; done; exit 1 ;;
esac
`
