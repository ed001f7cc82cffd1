package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/runner/host/local/files"
)

// maxIgnore bounds the file with the account's patterns, in bytes. All templates that GitHub
// collects make 100 KB.
const maxIgnore = 1 << 20

// IgnoreFile returns the path of the file whose patterns git ignores in every repository of
// the account, for instance .DS_Store and __pycache__/: core.excludesFile, or git's default
// ~/.config/git/ignore. The file need not exist. env is the environment of the account's git.
func IgnoreFile(ctx context.Context, env []string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", "config", "--type=path", "--get", "core.excludesFile")
	cmd.Dir = "/"
	cmd.Env = append(slices.Clone(env), "GIT_DIR=/dev/null") // not the setting of a repository
	cmd.WaitDelay = time.Second
	var out Answer
	cmd.Stdout = &out
	_, err := Run(cmd, maxMemory)
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return "", nil // without git there is no git status
	}
	// git fails if the setting does not exist, and if the configuration is broken, about which
	// doctor and the agent's git complain.
	if err != nil && !Exited(err) {
		return "", fmt.Errorf("read core.excludesFile: %w", err)
	}
	if path := strings.TrimRight(out.String(), "\n"); filepath.IsAbs(path) {
		return path, nil
	}
	vars := map[string]string{}
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		vars[name] = value
	}
	if config := vars["XDG_CONFIG_HOME"]; config != "" {
		return filepath.Join(config, "git", "ignore"), nil
	}
	if vars["HOME"] == "" {
		return "", nil
	}
	return filepath.Join(vars["HOME"], ".config", "git", "ignore"), nil
}

// ignore lets git also ignore the patterns in a file of the account, beside the repository's
// own. Like git, it treats a file that can't be read as empty: the files then count as work.
func (r *reader) ignore(path string) error {
	if path == "" {
		return nil
	}
	patterns, err := files.ReadRegular(path, maxIgnore)
	if err != nil {
		return nil //nolint:nilerr // as git does
	}
	return os.WriteFile(filepath.Join(r.scratch, "info", "exclude"), patterns, 0o600)
}
