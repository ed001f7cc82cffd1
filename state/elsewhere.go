package state

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/symphony-cron/symphony/internal/durable"
	"github.com/symphony-cron/symphony/reconcile/crash"
)

// elsewhereName is the folder, beside the state directories at the usual place, where those are written down that are
// somewhere else: one small file for each, which holds its path.
const elsewhereName = "elsewhere"

func elsewhereFile(home, dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return filepath.Join(home, elsewhereName, hex.EncodeToString(sum[:])[:hashDigits])
}

// Enlist writes down that dir is a state directory of the account whose usual place is home. It writes once.
func Enlist(home, dir string) error {
	path := elsewhereFile(home, dir)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	err := os.MkdirAll(filepath.Dir(path), dirMode)
	if err == nil {
		err = durable.WriteFile(path, []byte(dir+"\n"), fileMode)
	}
	if err != nil {
		return fmt.Errorf("write %s down in %s: %w", dir, filepath.Dir(path), err)
	}
	return nil
}

// Delist takes those off the list that hold no database any more.
func Delist(home string) error {
	dirs, err := Elsewhere(home)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, databaseName)); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := os.Remove(elsewhereFile(home, dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("take %s off the list: %w", dir, err)
		}
		crash.At("state.elsewhere.removed")
	}
	// The folder goes with the last of them.
	_ = os.Remove(filepath.Join(home, elsewhereName))
	return nil
}

// Elsewhere lists what Enlist has written down; whether it still is there is for the caller to look.
func Elsewhere(home string) (dirs []string, err error) {
	entries, err := os.ReadDir(filepath.Join(home, elsewhereName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list state directories elsewhere: %w", err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(home, elsewhereName, e.Name()))
		if err != nil {
			return dirs, fmt.Errorf("list state directories elsewhere: %w", err)
		}
		if dir := strings.TrimSuffix(string(text), "\n"); filepath.IsAbs(dir) && !strings.HasSuffix(e.Name(), durable.TempSuffix) {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}
