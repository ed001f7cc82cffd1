package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/symphony-cron/symphony/internal/durable"
)

// registryName is the folder of the state home that lists the state directories which lie elsewhere: one small file for
// each, which holds its path.
const registryName = "elsewhere"

func registryFile(home, dir string) string { return filepath.Join(home, registryName, pathHash(dir)) }

// RegisterDir records that dir is a state directory of the account whose state home is home.
func RegisterDir(home, dir string) error {
	path := registryFile(home, dir)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	err := os.MkdirAll(filepath.Dir(path), dirMode)
	if err == nil {
		err = durable.WriteFile(path, []byte(dir+"\n"), fileMode)
	}
	if err != nil {
		return fmt.Errorf("register %s: %w", dir, err)
	}
	return nil
}

// UnregisterDirs removes the registered directories that hold no database any more.
func UnregisterDirs(home string) error {
	dirs, err := RegisteredDirs(home)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, databaseName)); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := removeAll(registryFile(home, dir)); err != nil {
			return err
		}
	}
	_ = os.Remove(filepath.Join(home, registryName)) // only an empty folder can be removed
	return nil
}

// RegisteredDirs lists the registered state directories. They may be gone.
func RegisteredDirs(home string) (dirs []string, err error) {
	entries, err := os.ReadDir(filepath.Join(home, registryName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		path := filepath.Join(home, registryName, e.Name())
		text, err := os.ReadFile(path)
		if err != nil {
			return dirs, fmt.Errorf("list registered state directories: %w", err)
		}
		dir := strings.TrimSuffix(string(text), "\n")
		if filepath.IsAbs(dir) && path == registryFile(home, dir) { // not a file that was left half written
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}
