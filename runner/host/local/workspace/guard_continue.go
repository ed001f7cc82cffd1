package workspace

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
)

// continued takes out of what is under way in a git directory what would run for who continues it.
func (u *undoing) continued(dir string) error {
	return errors.Join(u.todo(dir), u.rebaseStrategy(dir), u.pickOptions(dir))
}

// todo takes the commands out of a rebase.
func (u *undoing) todo(dir string) error {
	path := filepath.Join(dir, "rebase-merge", "git-rebase-todo")
	now, err := lookAtFile(path)
	if err != nil || now.Kind != isFile {
		return err
	}
	var left strings.Builder
	for line := range strings.Lines(string(now.Data)) {
		// Older versions of git ask for no space after the word.
		if words := strings.Fields(line); len(words) == 0 || words[0] != "x" && !strings.HasPrefix(words[0], "exec") {
			left.WriteString(line)
		}
	}
	if left.Len() == len(now.Data) && now.Sum == "" {
		return nil
	}
	u.note(dir, "rebase-merge/git-rebase-todo")
	return replaceFile(path, []byte(left.String()), now.Mode|0o600)
}

// strategies of merging are git's own. Of any other git runs git-merge-NAME, by a path where there is a slash in it.
var strategies = []string{"ort", "recursive", "resolve", "octopus", "ours", "subtree"}

func (u *undoing) rebaseStrategy(dir string) error {
	path := filepath.Join(dir, "rebase-merge", "strategy")
	now, err := lookAtFile(path)
	if err != nil || now.Kind != isFile || slices.Contains(strategies, strings.TrimSpace(string(now.Data))) {
		return err
	}
	u.note(dir, "rebase-merge/strategy")
	return takeAway(u.ctx, path)
}

// pickOptions looks for one in the options of a series of picks, which are written as configuration is.
func (u *undoing) pickOptions(dir string) error {
	path := filepath.Join(dir, "sequencer", "opts")
	now, err := lookAtFile(path)
	if err != nil || now.Kind != isFile {
		return err
	}
	list, err := parseConfig(u.ctx, now.Data)
	if err != nil && !errors.Is(err, errNoConfig) {
		return err
	}
	if err == nil && now.Sum == "" && !slices.ContainsFunc(list, func(s setting) bool {
		return s.section == "options" && s.name == "strategy" && !slices.Contains(strategies, s.value)
	}) {
		return nil
	}
	u.note(dir, "sequencer/opts")
	return takeAway(u.ctx, path)
}
