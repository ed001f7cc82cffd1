package setup

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/term"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

// longestKey is far more than a key has: a file that is longer is another file.
const longestKey = 4096

// keyTries is how often a refused key may be typed again.
const keyTries = 3

// knownKey is the key that is here already. The environment file's counts first: a schedule sees nothing else.
func (s *starter) knownKey() string {
	return strings.TrimSpace(cmp.Or(s.p.EnvFile[workflow.APIKeyVar], s.w.Getenv(workflow.APIKeyVar)))
}

// findKey finds a key that Linear accepts.
func (s *starter) findKey(ctx context.Context) error {
	key, err := s.givenKey()
	if err != nil {
		return err
	}
	if key != "" {
		return s.tryKey(ctx, key)
	}
	for try := 1; ; try++ {
		typed, err := term.AskLine(ctx, s.w, s.tracker.KeyQuestion+": ", true)
		if err != nil {
			return err
		}
		if typed = strings.TrimSpace(typed); typed == "" {
			return nothingChosen("key")
		}
		err = s.tryKey(ctx, typed)
		if !s.tracker.RefusedKey(err) || try == keyTries {
			return err
		}
		s.say(err)
	}
}

// givenKey is the key of --key-file, or the one that is configured already; empty if there is none.
func (s *starter) givenKey() (string, error) {
	if s.options.keyFile == "" {
		return s.knownKey(), nil
	}
	key, err := s.readKey(s.options.keyFile)
	if err != nil {
		return "", err
	}
	if have := s.p.EnvFile[workflow.APIKeyVar]; have != "" && have != key {
		return "", &reconcile.Error{
			Code: "already_exists", Message: s.p.EnvPath() + " holds another key than --key-file",
			Hint: "change it there, or leave --key-file out to use the one that it holds",
		}
	}
	return key, nil
}

func (s *starter) readKey(path string) (string, error) {
	from := s.w.Stdin
	if path != "-" {
		file, err := os.Open(s.w.Absolute(path))
		if err != nil {
			return "", exit.Usage("init: --key-file: %s", err)
		}
		defer file.Close()
		from = file
	} else if s.asking {
		return "", exit.Usage("init: --key-file - reads a pipe; on a terminal leave it out, and you are asked")
	}
	data, err := io.ReadAll(io.LimitReader(from, longestKey+1))
	if err != nil {
		return "", exit.Usage("init: --key-file %s: %s", path, err)
	}
	key := strings.TrimSpace(string(data))
	if key == "" || len(data) > longestKey {
		return "", exit.Usage("init: --key-file %s holds no key", path)
	}
	return key, nil
}

// tryKey asks Linear whose key it is. Nothing that it says holds the key.
func (s *starter) tryKey(ctx context.Context, key string) error {
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("'\"\\#$`", r) }) {
		return &reconcile.Error{
			Code: "missing_tracker_api_key", Message: "the key holds characters that no key of " + s.tracker.Name + "'s has",
			Hint: "copy it again; a file holds the key alone, without a name or quotes",
		}
	}
	account, err := s.tracker.Connect(ctx, s.answers.Endpoint, key)
	if err != nil {
		return err
	}
	s.key, s.account = key, account
	if s.asking {
		fmt.Fprintf(s.w.Stderr, "It is the key of %s.\n", term.Visible(account.User))
	}
	return nil
}

// nothingChosen ends an init whose question got no answer.
func nothingChosen(what string) error {
	return &reconcile.Error{Code: "canceled", Message: "no " + what + " is given, nothing is written", Hint: "run symphony init again"}
}
