package codex

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/symphony-cron/symphony/runner/codex/schema"
)

// TestAnswersFitSchema holds the requests of the table, and what they are answered with under every setting, to the
// schema that the real codex prints of its protocol; and the table to its list of requests.
func TestAnswersFitSchema(t *testing.T) {
	dir := printSchema(t)
	list := readSchema(t, dir, "ServerRequest").Choices()
	if len(list) < 11 {
		t.Fatalf("codex lists %d requests", len(list))
	}
	for _, entry := range list {
		method, params := entry.Find("method")[0].Words()[0], entry.Find("params")[0].Ref()
		t.Run(method, func(t *testing.T) {
			asked, given := readSchema(t, dir, params), readSchema(t, dir, strings.TrimSuffix(params, "Params")+"Response")
			for _, s := range []schema.Schema{asked, given} {
				if words := s.Overlooked(); len(words) > 0 {
					t.Errorf("nothing is judged by %q", words)
				}
			}
			if len(requests[method]) == 0 {
				t.Fatal("the table has no such request")
			}
			for i, shape := range requests[method] {
				whole := complete(t, shape.params)
				// What complete adds belongs to some requests only.
				problems := slices.DeleteFunc(asked.Check(whole), func(p schema.Problem) bool { return p.Kind == schema.Unknown })
				if len(problems) > 0 && !strings.Contains(shape.params, "thread_id") {
					t.Errorf("shape %d: codex never asks so: %v", i, problems)
				}
				for name := range shape.want {
					synctest.Test(t, func(t *testing.T) {
						got := serveOne(t, settings[name], method, shape.params, "th")
						answer := strings.ReplaceAll(got.answer, "SECONDS", "1795160235")
						if strings.Contains(got.events, EventRequestRefused) {
							return // an error, which has a shape of its own
						}
						if problems := given.Check(decoded(t, answer)); len(problems) > 0 {
							t.Errorf("shape %d, %s: %s: %v", i, name, answer, problems)
						}
					})
				}
			}
		})
	}
}

// complete adds what codex always sends and the table leaves out.
func complete(t *testing.T, params string) any {
	t.Helper()
	members, ok := decoded(t, params).(map[string]any)
	if !ok {
		t.Fatalf("no object: %s", params)
	}
	for name, value := range map[string]any{"threadId": "th", "turnId": "tu", "startedAtMs": json.Number("1"), "isBlocking": true} {
		if members[name] == nil {
			members[name] = value
		}
	}
	return members
}

func printSchema(t *testing.T) (dir string) {
	t.Helper()
	bin := os.Getenv("SYMPHONY_TEST_CODEX")
	if bin == "" {
		t.Skip("SYMPHONY_TEST_CODEX names no codex binary")
	}
	dir, home := t.TempDir(), t.TempDir()
	cmd := exec.CommandContext(t.Context(), bin, "app-server", "generate-json-schema", "--experimental", "--out", dir)
	cmd.Env = []string{"HOME=" + home, "CODEX_HOME=" + home, "PATH=" + os.Getenv("PATH")}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

func readSchema(t *testing.T, dir, name string) schema.Schema {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := schema.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func decoded(t *testing.T, text string) any {
	t.Helper()
	v, err := schema.Decode([]byte(text))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}
