package setup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/exit"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
)

// free refuses where something stands already where init would write.
func (s *starter) free() error {
	info, err := os.Stat(filepath.Dir(s.p.Path))
	if err != nil || !info.IsDir() {
		return &reconcile.Error{
			Code: "init_failed", Message: filepath.Dir(s.p.Path) + " is no directory", Hint: "make it, or name another place for the workflow",
		}
	}
	if _, err := os.Lstat(s.p.Path); !errors.Is(err, fs.ErrNotExist) {
		return existing(s.p.Path, "nothing is written; symphony check tells whether it is right, -w FILE names another place")
	}
	if s.p.EnvErr != nil {
		return s.p.EnvErr
	}
	if s.hasEnvFile() && s.p.EnvFile[workflow.APIKeyVar] == "" {
		return existing(s.p.EnvPath(), "it holds no key, and nothing of it is changed: add a line "+workflow.APIKeyVar+"=… to it, then run symphony init again")
	}
	return nil
}

func existing(path, hint string) error {
	return &reconcile.Error{Code: "already_exists", Message: path + " exists", Hint: hint}
}

func (s *starter) hasEnvFile() bool {
	_, err := os.Lstat(s.p.EnvPath())
	return err == nil
}

// write makes both files or none. An environment file that holds the key already is left as it is.
func (s *starter) write(text []byte) error {
	made := ""
	if path := s.p.EnvPath(); !s.hasEnvFile() {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return notWritten(err)
		}
		line := "# Read by every pass of " + s.p.Path + ", whoever starts it.\n" + workflow.APIKeyVar + "=" + s.key + "\n"
		if err := createFile(path, []byte(line), 0o600); err != nil {
			return err
		}
		made = path
	}
	err := createFile(s.p.Path, text, 0o644)
	if err != nil && made != "" {
		err = errors.Join(err, os.Remove(made))
	}
	return err
}

// createFile makes a file that was not there, whole or not at all.
func createFile(path string, data []byte, mode fs.FileMode) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return existing(path, "nothing of it is changed")
	}
	if err != nil {
		return notWritten(err)
	}
	_, err = file.Write(data)
	err = errors.Join(err, file.Sync(), file.Close())
	if err != nil {
		return errors.Join(notWritten(err), os.Remove(path))
	}
	return nil
}

func notWritten(err error) error {
	if known := exit.From(err); known.Code != "internal" {
		return err // a full disk has a code of its own
	}
	return &reconcile.Error{
		Code: "init_failed", Message: "nothing is written: " + err.Error(), Hint: "look at the permissions of the directory that is named", Err: err,
	}
}
