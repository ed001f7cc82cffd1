package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/symphony-cron/symphony/runner/host/gitcmd"
)

// Settings are those of the account's git that matter before an agent starts.
type Settings struct {
	// HooksPath is core.hooksPath as git sees it in the workspace, where the repository's own
	// configuration counts, too. It is empty if it is not set.
	HooksPath string
	AccountFiles
}

// AccountFiles are files of the account that git obeys in every repository. They are empty if they
// do not exist.
type AccountFiles struct {
	// Ignored has the patterns that git ignores, for instance .DS_Store and __pycache__/. It is
	// core.excludesFile of the account, or git's default ~/.config/git/ignore.
	Ignored string `json:"ignored,omitempty"`
	// Attributes is core.attributesFile of the account, or ~/.config/git/attributes: it decides
	// for instance which ends of lines are a change.
	Attributes string `json:"attributes,omitempty"`
}

// ReadSettings reads them with the account's git, once for all. tree is the workspace, and env
// the environment of git in hooks. Without git there are none. To read them runs no program of
// the repository.
func ReadSettings(ctx context.Context, tree string, env []string) (Settings, error) {
	const names = `^core\.(hookspath|excludesfile|attributesfile)$`
	printed, err := gitcmd.Output(gitcmd.Command(
		ctx, tree, gitcmd.AsConfigured, env, "config", "--show-scope", "--type=path", "-z", "--get-regexp", names,
	), maxMemory)
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return Settings{}, nil
	}
	if gitcmd.IsTooOld(err) {
		return Settings{}, errors.New("read core.hooksPath with git config --show-scope: " +
			"this git does not know that option: install git 2.31 or newer")
	}
	// git fails if no such setting exists, and if the configuration is broken, about which
	// doctor and the agent's git complain.
	if err != nil && !gitcmd.Exited(err) {
		return Settings{}, fmt.Errorf("read core.hooksPath and the files of the account: %w", err)
	}
	settings := Settings{AccountFiles: AccountFiles{
		Ignored:    defaultFile(env, "ignore"),
		Attributes: defaultFile(env, "attributes"),
	}}
	settings.read(printed)
	for _, file := range []*string{&settings.Ignored, &settings.Attributes} {
		if !exists(*file) {
			*file = ""
		}
	}
	return settings, nil
}

// read takes the values that git printed, for instance "global\0core.hookspath\n/srv/hooks\0".
// The last value of a setting counts.
func (s *Settings) read(printed string) {
	fields := strings.Split(printed, "\x00")
	for len(fields) >= 2 {
		scope := fields[0]
		name, value, _ := strings.Cut(fields[1], "\n")
		fields = fields[2:]
		isOfRepository := scope == "local" || scope == "worktree"
		switch {
		case name == "core.hookspath":
			s.HooksPath = value
		case isOfRepository || !filepath.IsAbs(value):
		case name == "core.attributesfile":
			s.Attributes = value
		default:
			s.Ignored = value
		}
	}
}

// defaultFile is a file that git finds without a setting.
func defaultFile(env []string, file string) string {
	vars := map[string]string{}
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		vars[name] = value
	}
	if config := vars["XDG_CONFIG_HOME"]; config != "" {
		return filepath.Join(config, "git", file)
	}
	if vars["HOME"] == "" {
		return ""
	}
	return filepath.Join(vars["HOME"], ".config", "git", file)
}
