package term

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// For the journal each line begins with its priority, and text has no time of its own.
func TestJournalLines(t *testing.T) {
	for _, c := range []struct {
		level   slog.Level
		format  string
		journal bool
		want    string
	}{
		{slog.LevelError, TextLog, true, "<3>level=ERROR msg=m a=1 k=v\n"},
		{slog.LevelWarn, TextLog, true, "<4>level=WARN msg=m a=1 k=v\n"},
		{slog.LevelInfo, TextLog, true, "<6>level=INFO msg=m a=1 k=v\n"},
		{slog.LevelDebug, TextLog, true, "<7>level=DEBUG msg=m a=1 k=v\n"},
		{slog.LevelInfo, JSONLog, true, `<6>{"time":"T","level":"INFO","msg":"m","a":1,"k":"v"}` + "\n"},
		{slog.LevelInfo, JSONLog, false, `{"time":"T","level":"INFO","msg":"m","a":1,"k":"v"}` + "\n"},
		{slog.LevelInfo, TextLog, false, "time=T level=INFO msg=m a=1 k=v\n"},
	} {
		var out bytes.Buffer
		log := (&Env{
			Stderr:  &out,
			Journal: c.journal,
		}).NewLog(slog.LevelDebug, c.format).With(slog.Int("a", 1))
		log.Log(t.Context(), c.level, "m", slog.String("k", "v"))
		test.Equal(t, fmt.Sprintln(c.level, c.format, c.journal), withoutTime(out.String()), c.want)
	}
}

// withoutTime replaces the time of a log line by T.
func withoutTime(line string) string {
	for _, mark := range []string{`time=`, `"time":"`} {
		if before, rest, found := strings.Cut(line, mark); found {
			return before + mark + "T" + rest[strings.IndexAny(rest, ` "`):]
		}
	}
	return line
}

// Errors and notes have the priority before each of their lines, where stderr is the journal.
func TestJournalErrors(t *testing.T) {
	for journal, want := range map[bool]string{
		true:  "<3>symphony: code: what\n<3>  do this\n<4>symphony: warning: odd\n<6>symphony: over: x\n",
		false: "symphony: code: what\n  do this\nsymphony: warning: odd\nsymphony: over: x\n",
	} {
		var out bytes.Buffer
		w := &Env{}
		w.Stderr = &out
		w.Journal = journal
		w.PrintError(&reconcile.Error{Code: "code", Message: "what", Hint: "do this"})
		w.Note(slog.LevelWarn, "odd")
		w.Note(slog.LevelInfo, "over: x")
		test.Equal(t, fmt.Sprint("journal ", journal), out.String(), want)
	}
}

// JOURNAL_STREAM must name the very file that stderr is.
func TestIsJournal(t *testing.T) {
	file := test.Must(os.Create(filepath.Join(t.TempDir(), "stream")))
	defer file.Close()
	info := test.Must(file.Stat())
	is := info.Sys().(*syscall.Stat_t)
	for stream, want := range map[string]bool{
		fmt.Sprintf("%d:%d", is.Dev, is.Ino):   true,
		fmt.Sprintf("%d:%d", is.Dev, is.Ino+1): false,
		"":                                     false,
		"x":                                    false,
	} {
		test.Equal(t, stream, isJournal(stream, file), want)
	}
}
