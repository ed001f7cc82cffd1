package file

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// settings are the values of Backlog.md's configuration that matter here.
type settings struct {
	Statuses      []string `yaml:"statuses"`
	DefaultStatus string   `yaml:"default_status"`
	Prefix        string   `yaml:"task_prefix"`     // letters, such as TASK
	Digits        int      `yaml:"zero_padded_ids"` // 3 for TASK-004; 0 for TASK-4
}

// mostDigits bounds the digits of ids, which are in names of files.
const mostDigits = 9

var prefix = text.Pattern(`^[A-Za-z]*$`)

// settingsFiles are the places of Backlog.md's configuration: beside the folder tasks, or in a
// directory above. The first that exists counts. A folder of another name gets none.
func settingsFiles(path string) (list []string) {
	if filepath.Base(path) != "tasks" {
		return nil
	}
	list = []string{filepath.Join(filepath.Dir(path), "config.yml")}
	for dir := path; dir != filepath.Dir(dir); {
		dir = filepath.Dir(dir)
		list = append(list, filepath.Join(dir, "backlog.config.yml"))
	}
	return list
}

// Beside returns the files and directories outside a folder of issues that are read with it.
// Some need not exist.
func Beside(path string) (list []string) {
	list = settingsFiles(path)
	if list == nil {
		return nil
	}
	exists := func(file string) bool {
		_, err := os.Lstat(file)
		return err == nil
	}
	if first := slices.IndexFunc(list, exists); first >= 0 {
		list = list[:first+1]
	}
	beside := func(name string) string { return filepath.Join(filepath.Dir(path), name) }
	return append(list, text.Map(finishedFolders, beside)...)
}

// readSettings reads Backlog.md's configuration. A file that cannot be read leaves all
// settings empty.
func readSettings(path string) settings {
	for _, file := range settingsFiles(path) {
		root, err := os.OpenRoot(filepath.Dir(file))
		if err != nil {
			continue
		}
		content, info, err := readFile(root, filepath.Base(file))
		_ = root.Close()
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		var s settings
		if yaml.Unmarshal(content, &s) != nil {
			return settings{}
		}
		// Names of files begin with the prefix, which must not lead out of the folder.
		if !prefix().MatchString(s.Prefix) {
			s.Prefix = ""
		}
		s.Digits = min(max(s.Digits, 0), mostDigits)
		return s
	}
	return settings{}
}

// States returns the states that Backlog.md's configuration defines for a folder, in their
// order; none if there is no configuration.
func States(path string) (list []reconcile.TrackerState) {
	s := readSettings(path)
	waiting := max(0, slices.Index(s.Statuses, s.DefaultStatus))
	ended := []string{"done", "closed", "canceled", "cancelled", "duplicate"}
	for i, name := range s.Statuses {
		state := reconcile.TrackerState{Name: name}
		switch {
		case i == len(s.Statuses)-1, slices.Contains(ended, strings.ToLower(name)):
			state.Kind = reconcile.StateEnded
		case i == waiting:
			state.Kind = reconcile.StateWaiting
		case i > waiting:
			state.Kind = reconcile.StateStarted
		}
		list = append(list, state)
	}
	return list
}

// WrittenStates returns the states of the issues in a folder, as their files write them; none if
// the folder can't be read.
func WrittenStates(path string) (states []string) {
	t := &tracker{Options: Options{Path: path, Now: time.Now, Warn: func(string) {}}}
	all, err := t.read()
	if err != nil {
		return nil
	}
	for _, r := range all.records {
		if !slices.Contains(states, r.issue.State) {
			states = append(states, r.issue.State)
		}
	}
	return states
}
