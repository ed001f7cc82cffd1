package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// powerSyncs is the number of cuts: more than the whole life of an issue has syncs, so that the last ones come when
// everything has ended. go test ./... makes every sixth of them, with SYMPHONY_CRASH_TEST all are made.
const powerSyncs = 54

func TestPowerFailure(t *testing.T) {
	scripts := map[string]string{}
	for cut := 1; cut <= powerSyncs; cut++ {
		for name, flag := range map[string]string{"late": "", "early": " -lazy"} {
			if flag != "" && cut%3 > 0 || crashMode() == "" && cut%6 > 0 {
				continue
			}
			scripts[fmt.Sprintf("sync_%02d_%s", cut, name)] = fmt.Sprintf(made("power.txtar"), cut, flag)
		}
	}
	runScripts(t, params(t, "script"), scripts)
}

// reported is what other processes may have acted on. Heartbeats and the record of a pass may be lost.
var reported = []string{
	`SELECT * FROM claims ORDER BY issue_id`,
	`SELECT id, outcome, error_code, stop_reason, settled, worker_pid, thread_id, turns_done FROM runs WHERE outcome IS NOT NULL OR phase <> '' ORDER BY id`,
	`SELECT * FROM commands ORDER BY id`,
	`SELECT * FROM issue_totals ORDER BY issue_id`,
}

// keptCmd fails where a row that could be read before the power failed is gone. A transaction in progress may be stored or
// not. Usage: kept
func keptCmd(ts *testscript.TestScript, neg bool, args []string) {
	now, seen, written := ts.Getenv("STATE"), ts.Getenv("STATE")+".seen", ts.Getenv("STATE")+".written"
	if _, err := os.Stat(filepath.Join(seen, "state.db")); err != nil {
		return // there was nothing to read
	}
	ts.Check(os.RemoveAll(written))
	ts.Check(os.CopyFS(written, os.DirFS(seen)))
	ts.Check(readableOnly(seen))
	for _, text := range reported {
		was, err := query(seen, text)
		ts.Check(err)
		may, err := query(written, text)
		ts.Check(err)
		is, err := query(now, text)
		if is != was && is != may || err != nil && was != "" {
			ts.Fatalf("%s: it was\n%s\nis now (%v)\n%s", text, was, err, is)
		}
	}
}

// readableOnly truncates the WAL to its committed frames. The index, which tells readers how far to go, begins with its
// version, three words, the page size and the number of frames.
func readableOnly(stateDir string) error {
	index, err := os.ReadFile(filepath.Join(stateDir, "state.db-shm"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the database was closed
	}
	if err != nil || len(index) < 20 || index[12] == 0 {
		return err
	}
	page := int64(binary.NativeEndian.Uint16(index[14:]))
	frames := int64(binary.NativeEndian.Uint32(index[16:]))
	wal := filepath.Join(stateDir, "state.db-wal")
	info, err := os.Stat(wal)
	if err != nil {
		return err
	}
	return os.Truncate(wal, min(info.Size(), 32+frames*(24+page)))
}
