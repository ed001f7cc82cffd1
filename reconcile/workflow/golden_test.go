package workflow

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

var update = flag.Bool("update", false, "rewrite the golden files of testdata/workflow")

const (
	testdata = "../../testdata/workflow"
	envKey   = "lin_api_from_the_environment"
	teamKey  = "lin_api_of_the_team"
	ghToken  = "ghp_of_the_environment"
)

func testEnv() Environment {
	env := envOf(map[string]string{
		"LINEAR_API_KEY": envKey,
		"TEAM_KEY":       teamKey,
		"GITHUB_TOKEN":   ghToken,
		"REPO":           "acme/web-shop",
		"EMPTY":          "",
		"ME":             "ann@example.com",
		"BASE":           "/srv/base",
		"NAME":           "north",
	})
	env.Home = "/home/ann"
	return env
}

func source(t testing.TB, text string) Source {
	t.Helper()
	return test.Must(NewSource("WORKFLOW.md", "/srv/flow/WORKFLOW.md", []byte(text)))
}

// TestGolden compares the messages about each file of testdata/workflow, and the configuration
// of the valid ones. Run it with -update and review the difference.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testdata, "*.md"))
	test.Equal(t, "error, and whether there are files", []any{err, len(files) > 0}, []any{nil, true})
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".md"), func(t *testing.T) {
			data := test.Must(os.ReadFile(file))
			got := describe(data)
			golden := strings.TrimSuffix(file, ".md") + ".golden"
			if *update {
				test.OK(t, os.WriteFile(golden, []byte(got), 0o644))
				return
			}
			test.Equal(t, "the result", got, string(test.Must(os.ReadFile(golden))))
			test.Equal(
				t,
				"refused",
				strings.Contains(got, "error: "),
				strings.HasPrefix(filepath.Base(file), "err-"),
			)
			test.Lacks(t, "the output", got, envKey, teamKey, ghToken, "lin_api_0123456789abcdef")
		})
	}
}

// describe prints everything that Parse returns for a file.
func describe(data []byte) string {
	var out strings.Builder
	src, err := NewSource("WORKFLOW.md", "/srv/flow/WORKFLOW.md", data)
	var cfg *Config
	if err == nil {
		cfg, err = Parse(src, testEnv())
	}
	for _, f := range Faults(err) {
		fmt.Fprintf(&out, "error: %s\n", f)
		if f.Hint != "" {
			fmt.Fprintf(&out, "  hint: %s\n", f.Hint)
		}
	}
	if cfg == nil {
		return out.String()
	}
	for _, w := range cfg.Warnings {
		fmt.Fprintf(&out, "warning: %s\n", w)
	}
	if cfg.Prompt != nil {
		for _, p := range cfg.Prompt.Check() {
			fmt.Fprintf(&out, "problem: %s\n", p)
		}
	}
	if err != nil {
		return out.String()
	}
	for _, section := range []any{
		cfg.Policy,
		cfg.Tracker,
		cfg.Polling,
		cfg.Monitor,
		cfg.Workspace,
		cfg.Repository,
		cfg.Hooks,
		cfg.Agent,
		cfg.Session,
		cfg.Chosen,
	} {
		v := reflect.ValueOf(section)
		for i := range v.NumField() {
			if !v.Type().Field(i).IsExported() {
				continue
			}
			value := v.Field(i).Interface()
			text := fmt.Sprintf("%v", value)
			switch value := value.(type) {
			case json.RawMessage:
				text = string(value)
			case string:
				text = fmt.Sprintf("%q", value)
			case []string:
				text = fmt.Sprintf("%q", value)
			}
			fmt.Fprintf(&out, "%s.%s = %s\n", v.Type().Name(), v.Type().Field(i).Name, text)
		}
	}
	fmt.Fprintf(&out, "KeyIsLiteral = %v\nSecretVars = %v\n", cfg.KeyIsLiteral, cfg.SecretVars)
	return out.String()
}
