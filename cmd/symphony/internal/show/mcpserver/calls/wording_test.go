package calls

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/reconcile"
)

// The errors of other packages still have the texts that are replaced here.
func TestReplacedTextsExist(t *testing.T) {
	var sources strings.Builder
	root := filepath.Join("..", "..", "..", "..", "..", "..")
	for _, dir := range []string{"state", "cmd/symphony/internal/act", "cmd/symphony/internal/wiring"} {
		test.OK(t, filepath.WalkDir(filepath.Join(root, dir), func(path string, e fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			data, err := os.ReadFile(path)
			sources.Write(data)
			return err
		}))
	}
	for _, w := range wordings {
		if !strings.Contains(sources.String(), w.text) {
			t.Errorf("no error says %q", w.text)
		}
	}
}

// A hint names the tools of the server, and what a person decides stays a command.
func TestForModel(t *testing.T) {
	with := func(names ...string) *Tools {
		tools := &Tools{inputs: map[string]*jsonschema.Schema{}}
		for _, name := range names {
			tools.inputs[name] = &jsonschema.Schema{}
		}
		return tools
	}
	lean := with("send_message", "wait_agent", "decide_request")
	all := with("new_conversation", "list_requests", "approve")
	byPerson := with("send_message", "wait_agent")
	const decide = "one.1 asks for approval: symphony approve one.1 | symphony deny one.1"
	for _, c := range []struct {
		tools            *Tools
		code, hint, want string
	}{
		{lean, "x", "symphony ps shows the open requests", "wait_agent shows the open requests"},
		{all, "x", "symphony ps shows the open requests", "list_requests shows the open requests"},
		{lean, "x", decide, "one.1 asks for approval: decide_request with the decision approve or deny"},
		{all, "x", decide, "one.1 asks for approval: approve or deny"},
		{byPerson, "x", decide, decide},
		{lean, CodeNotDecided, decide, decide},
		{lean, "usage", "see symphony help answer", "correct the arguments, and call some_tool again"},
		{
			lean, "usage", `symphony answer one.2 --choice N "TEXT"`,
			"decide_request with the decision answer, and one of answers for each question",
		},
	} {
		got := c.tools.forModel("some_tool", reconcile.NewError(c.code, "", c.hint))
		test.Equal(t, c.hint, got.Hint, c.want)
	}
}
