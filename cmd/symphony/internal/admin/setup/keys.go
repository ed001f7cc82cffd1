package setup

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

const keyTries = 3 // how often a key may be typed

// keys finds the key to the tracker and stores it.
type keys struct{ *starter }

func findKey(s *starter, ctx context.Context) error { return keys{s}.find(ctx) }

func writeKey(s *starter, ctx context.Context) (undo func() error, err error) {
	return keys{s}.write(ctx)
}

// checkFile refuses an environment file without a key, because init would have to change it.
func (k keys) checkFile() error {
	if name := k.kind.keyVars[0]; exists(k.p.EnvPath()) && k.inFile() == "" {
		return existing(k.p.EnvPath(), "it contains no key and was not changed: add a line "+name+"=… to it, then run symphony init again")
	}
	return nil
}

// inFile is the key in the environment files.
func (k keys) inFile() (key string) {
	for _, name := range k.kind.keyVars {
		key = cmp.Or(key, k.p.EnvFile[name])
	}
	return key
}

// known returns the key that is already configured, preferably that of the environment file, the only one that a schedule has.
func (k keys) known() string {
	key := k.inFile()
	for _, name := range k.kind.keyVars {
		key = cmp.Or(key, k.w.Getenv(name))
	}
	return strings.TrimSpace(key)
}

// find finds a key that the tracker accepts: that of --key-file, the one that is already configured, or one that is typed. A
// refused key may be typed again.
func (k keys) find(ctx context.Context) error {
	key := k.known()
	source := k.p.KeySource(key, k.kind.keyVars...)
	if k.options.KeyFile != "" {
		var err error
		source = "--key-file"
		if key, err = k.read(k.options.KeyFile); err != nil {
			return err
		}
		if have := k.inFile(); have != "" && have != key && exists(k.p.EnvPath()) {
			return reconcile.NewError("already_exists", k.p.EnvPath()+" contains another key than --key-file",
				"change it there, or leave out --key-file to use the one in the file")
		}
	}
	if key == "" && k.kind.ofGitHub {
		key, source = k.p.GhToken(cmp.Or(k.answers.Endpoint, k.tracker.Endpoint)), "gh auth token"
		k.keyFromGh = key != ""
	}
	if key != "" {
		return k.try(ctx, key, source)
	}
	if !k.interactive {
		return exit.Usage("init: without a terminal, give --key-file or the variable %s, or log in with gh auth login", k.kind.keyVars[0])
	}
	for try := 1; ; try++ {
		typed, err := k.ask(ctx, k.tracker.KeyQuestion, "key", "")
		if err != nil {
			return err
		}
		if err = k.try(ctx, typed, ""); !k.tracker.RefusedKey(err) || try == keyTries {
			return err
		}
		k.printError(err)
	}
}

func (k keys) read(path string) (string, error) {
	var data []byte
	var err error
	switch {
	case path != "-":
		data, err = os.ReadFile(k.w.Absolute(path))
	case k.interactive:
		return "", exit.Usage("init: --key-file - reads from a pipe; on a terminal leave it out to be asked for the key")
	default:
		data, err = io.ReadAll(k.w.Stdin)
	}
	if err != nil {
		return "", exit.Usage("init: --key-file: %s", err)
	}
	key := strings.TrimSpace(string(data))
	if key == "" {
		return "", exit.Usage("init: --key-file %s contains no key", path)
	}
	return key, nil
}

// try asks the tracker for the user of the key. Its errors never contain the key, but say that it comes from source.
func (k keys) try(ctx context.Context, key, source string) error {
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("'\"\\#$`=", r) }) {
		return reconcile.NewError("missing_tracker_api_key", "the key contains characters that a key of "+k.tracker.Name+" can't contain",
			"copy it again; a key file contains nothing but the key, without a name or quotes")
	}
	account, err := k.tracker.Connect(ctx, k.answers.Endpoint, key, source)
	if err != nil {
		return err
	}
	k.key, k.account = key, account
	if k.interactive {
		fmt.Fprintf(k.w.Stderr, "This is the key of %s.\n", text.Visible(account.User))
	}
	return nil
}

// path is the environment file that contains the key, or will contain it: that of all projects if it has this key.
func (k keys) path() string {
	for _, name := range k.kind.keyVars {
		if k.p.OwnEnv[name] == "" && k.p.SharedEnv[name] == k.key {
			return k.p.SharedEnvPath()
		}
	}
	return k.p.EnvPath()
}

// write writes the environment file, unless there is one, which then contains the key.
func (k keys) write(context.Context) (undo func() error, err error) {
	path := k.path()
	if k.keyFromGh || exists(path) {
		return nothing, nil
	}
	line := "# Read by every pass of " + k.p.Path + ", also of scheduled ones.\n" + k.kind.keyVars[0] + "=" + k.key + "\n"
	if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
		err = durable.WriteFile(path, []byte(line), 0o600)
	}
	if err != nil {
		return nothing, err
	}
	return func() error { return os.Remove(path) }, nil
}
