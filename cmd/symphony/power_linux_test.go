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

// powerSyncs is the number of cuts tried: with more of them than an issue's whole way has syncs, the last ones come
// when everything has ended.
const powerSyncs = 54

// powerScript is a project whose power fails while its first issue is worked on. Nothing is lost that was reported,
// and the passes that follow bring it to its end.
const powerScript = `linear add ABC-1 work.agent
exec power -cut %d%s $STATE symphony tick
kept
until '^pass \d+: 0 running, 0 waiting, 0 held' symphony tick
linear is ABC-1 Human Review
sql 'SELECT count(*) FROM runs WHERE outcome IS NULL OR NOT settled'
stdout '^0$'
quiet
-- work.agent --
tokens 700 70
{move Human Review}
`

func TestPowerFailure(t *testing.T) {
	dir := t.TempDir()
	var scripts []string
	for cut := 1; cut <= powerSyncs; cut++ {
		for name, flag := range map[string]string{"late": "", "early": " -lazy"} {
			if flag != "" && cut%3 > 0 { // it takes its time
				continue
			}
			path := filepath.Join(dir, fmt.Sprintf("sync_%02d_%s.txtar", cut, name))
			if err := os.WriteFile(path, fmt.Appendf(nil, powerScript, cut, flag), 0o600); err != nil {
				t.Fatal(err)
			}
			scripts = append(scripts, path)
		}
	}
	p := params(t, "script")
	p.Dir, p.Files, p.UpdateScripts = "", scripts, false
	testscript.Run(t, p)
}

// reported is what others may have acted on once it can be read. Heartbeats, and what a pass says of itself, may
// be lost.
var reported = []string{
	`SELECT * FROM claims ORDER BY issue_id`,
	`SELECT id, outcome, error_code, stop_reason, settled, worker_pid, thread_id, turns_done FROM runs WHERE outcome IS NOT NULL OR phase <> '' ORDER BY id`,
	`SELECT * FROM commands ORDER BY id`,
	`SELECT * FROM issue_totals ORDER BY issue_id`,
}

// keptCmd fails where something that could be read before the power failed is not there any more. What was just
// being written may be there or not: kept
func keptCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: kept")
	}
	now, seen, written := ts.Getenv("STATE"), ts.Getenv("STATE")+".seen", ts.Getenv("STATE")+".written"
	if _, err := os.Stat(filepath.Join(seen, "state.db")); err != nil {
		return // nobody could read anything
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

// readableOnly takes away what a transaction that was not through yet had written to the WAL: the index, which says
// how far readers go, begins with its version, three words, the page size and the number of frames.
func readableOnly(stateDir string) error {
	index, err := os.ReadFile(filepath.Join(stateDir, "state.db-shm"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the last one has closed it
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
