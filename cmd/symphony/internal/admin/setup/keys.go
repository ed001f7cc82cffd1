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
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

const keyTries = 3 // how often a key may be typed

// checkKeyFile refuses an environment file without a key, because init would have to change
// it.
func (s *starter) checkKeyFile() error {
	if !exists(s.p.EnvPath()) || s.keys.inFile() != "" {
		return nil
	}
	return existing(
		s.p.EnvPath(),
		"it contains no key and was not changed: add a line "+s.keys.names[0]+"=… to it, then run symphony init again",
	)
}

// keys finds the key of a tracker where the project may have it.
type keys struct {
	p     *wiring.Project
	names []string // of the variables
}

// inFile is the key in the environment files.
func (k keys) inFile() (key string) {
	for _, name := range k.names {
		key = cmp.Or(key, k.p.EnvFile[name])
	}
	return key
}

// known returns the key that is already configured. It prefers the key of the environment
// file, because a schedule reads no other.
func (k keys) known() string {
	key := k.inFile()
	for _, name := range k.names {
		key = cmp.Or(key, k.p.Env.Getenv(name))
	}
	return strings.TrimSpace(key)
}

// path is the environment file that contains the key, or will contain it: the file for all
// projects if the key is there.
func (k keys) path(key string) string {
	for _, name := range k.names {
		if k.p.OwnEnv[name] == "" && k.p.SharedEnv[name] == key {
			return k.p.SharedEnvPath()
		}
	}
	return k.p.EnvPath()
}

// where tells where the key is.
func (k keys) where(word, key string) string { return "the " + word + " is in " + k.path(key) }

// findKey finds a key that the tracker accepts: from --key-file, as it is configured already, or
// typed by the operator. A refused key may be typed again.
func (s *starter) findKey(ctx context.Context) error {
	key := s.keys.known()
	source := s.p.KeySource(key, s.keys.names...)
	if s.options.KeyFile != "" {
		var err error
		source = "--key-file"
		key, err = s.readKey(s.options.KeyFile)
		if err != nil {
			return err
		}
		if have := s.keys.inFile(); have != "" && have != key && exists(s.p.EnvPath()) {
			return reconcile.NewError("already_exists", s.p.EnvPath()+" contains another key than --key-file",
				"change it there, or leave out --key-file to use the one in the file")
		}
	}
	if key == "" && s.keyOfGh {
		key = s.p.GhToken(cmp.Or(s.answers.Endpoint, s.tracker.Endpoint))
		source = "gh auth token"
		s.keyFromGh = key != ""
	}
	if key != "" {
		return s.tryKey(ctx, key, source)
	}
	if !s.interactive {
		or := ""
		if s.keyOfGh {
			or = ", or log in with gh auth login"
		}
		return exit.Usage(
			"init: without a terminal, give --key-file or the variable %s%s",
			s.keys.names[0],
			or,
		)
	}
	for try := 1; ; try++ {
		typed, err := s.ask(ctx, s.tracker.KeyQuestion, "key", "")
		if err != nil {
			return err
		}
		err = s.tryKey(ctx, typed, "")
		if !s.tracker.RefusedKey(err) || try == keyTries {
			return err
		}
		s.printError(err)
	}
}

// readKey reads the key of --key-file.
func (d dialog) readKey(path string) (string, error) {
	var data []byte
	var err error
	switch {
	case path != "-":
		data, err = os.ReadFile(d.w.Absolute(path))
	case d.interactive:
		return "", exit.Usage(
			"init: --key-file - reads from a pipe; on a terminal leave it out to be asked for the key",
		)
	default:
		data, err = io.ReadAll(d.w.Stdin)
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

// tryKey asks the tracker for the user of the key. Its errors never contain the key, but say
// that it comes from source.
func (s *starter) tryKey(ctx context.Context, key, source string) error {
	isOdd := func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("'\"\\#$`=", r) }
	if strings.ContainsFunc(key, isOdd) {
		return reconcile.NewError(
			"missing_tracker_api_key",
			"the key contains characters that a key of "+s.tracker.Name+" can't contain",
			"copy it again; a key file contains nothing but the key, without a name or quotes",
		)
	}
	account, err := s.tracker.Connect(ctx, s.answers.Endpoint, key, source)
	if err != nil {
		return err
	}
	s.key = key
	s.account = account
	if s.interactive {
		fmt.Fprintf(s.w.Stderr, "This is the key of %s.\n", text.Visible(account.User))
	}
	return nil
}

// writeKey writes the environment file, unless it exists, because then it contains the key.
func (s *starter) writeKey(context.Context) (undo func() error, err error) {
	path := s.keys.path(s.key)
	if s.keyFromGh || exists(path) {
		return nothing, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nothing, err
	}
	lines := "# Read by every pass of " + s.p.Path + ", also of scheduled ones.\n" +
		s.keys.names[0] + "=" + s.key + "\n"
	if err := durable.WriteFile(path, []byte(lines), 0o600); err != nil {
		return nothing, err
	}
	return func() error { return os.Remove(path) }, nil
}
