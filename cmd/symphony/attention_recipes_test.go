package main

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"gopkg.in/yaml.v3"

	"github.com/symphony-cron/symphony/internal/test"
)

const (
	askedCommand = `echo "a \ b & <c>" > 'made.txt'`
	heldText     = "ABC-8 is held by an operator"
)

// TestAttentionRecipes runs the recipes of docs/requests.md for hooks.on_attention from a
// worker and from a pass, with a server of the test and a sendmail that stores its input.
func TestAttentionRecipes(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	text := document(t, "docs/requests.md")
	hooks := attentionRecipes(t, text)
	if len(hooks) != 3 {
		t.Fatalf("docs/requests.md has %d recipes, want 3", len(hooks))
	}
	answer := between(t, text, "```sh\n", "```\n")
	for name, recipe := range map[string]struct {
		by   string // a part of the recipe's script
		read func(t *testing.T, message string) (title, text string)
	}{
		"ntfy":  {"$NTFY_URL", readNtfy},
		"slack": {"$SLACK_WEBHOOK", readSlack},
		"mail":  {"/usr/sbin/sendmail", readMail},
	} {
		t.Run(name, func(t *testing.T) {
			at := slices.IndexFunc(hooks, func(hook string) bool { return strings.Contains(hook, recipe.by) })
			if at < 0 {
				t.Fatalf("no recipe contains %s", recipe.by)
			}
			got := ring(t, hooks[at], answer)
			for i, want := range []struct{ title, text string }{
				{"request ABC-7", "ABC-7 asks: " + askedCommand},
				{"ready ABC-7", "ABC-7 was handed over"},
				{"hold ABC-8", heldText},
			} {
				title, text := recipe.read(t, got[i])
				if title != want.title && title != "" || !strings.HasPrefix(text, want.text) {
					t.Errorf("message %d is %q, %q", i+1, title, text)
				}
			}
		})
	}
}

// attentionRecipes returns the scripts that the document shows.
func attentionRecipes(t *testing.T, text string) (hooks []string) {
	t.Helper()
	for _, m := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		var shown struct {
			Hooks struct {
				OnAttention string `yaml:"on_attention"`
			}
		}
		test.OK(t, yaml.Unmarshal([]byte(m[1]), &shown))
		if shown.Hooks.OnAttention != "" {
			hooks = append(hooks, shown.Hooks.OnAttention)
		}
	}
	return hooks
}

// post is a message that was sent over HTTP.
type post struct{ Title, Type, Path, Body string }

// ring lets an agent ask for approval, holds another issue, and returns the three messages
// that the hook sent: posts as JSON, mails unchanged. The command that the document shows for
// a phone approves the request.
func ring(t *testing.T, hook, answer string) []string {
	t.Helper()
	var mu sync.Mutex
	var posts []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body := test.Must(io.ReadAll(r.Body))
		message := test.Must(
			json.Marshal(post{r.Header.Get("Title"), r.Header.Get("Content-Type"), r.URL.Path, string(body)}),
		)
		mu.Lock()
		defer mu.Unlock()
		posts = append(posts, string(message))
	}))
	defer server.Close()
	var got []string
	p := params(t, "script")
	p.Cmds["received"] = func(ts *testscript.TestScript, _ bool, args []string) {
		waitFor(ts, "message "+args[0], func() (bool, string) {
			mu.Lock()
			defer mu.Unlock()
			got = slices.Clone(posts)
			for _, name := range []string{"mail.request", "mail.ready", "mail.hold"} {
				if mail, err := os.ReadFile(ts.MkAbs(name)); err == nil {
					got = append(got, string(mail))
				}
			}
			return fmt.Sprint(len(got)) == args[0], fmt.Sprint(got)
		})
	}
	hook = strings.ReplaceAll(hook, "/usr/sbin/sendmail", `sh "$WORK/sendmail.sh"`)
	script := fmt.Sprintf(
		made("attention.txtar"),
		server.URL,
		strings.ReplaceAll(strings.TrimSpace(hook), "\n", "\n    "),
		strings.ReplaceAll(answer, "ABC-7.3", "ABC-7.1"),
		askedCommand,
	)
	if !t.Run("script", func(t *testing.T) { runScripts(t, p, map[string]string{"recipe": script}) }) {
		t.FailNow()
	}
	return got
}

func readPost(t *testing.T, message string) (p post) {
	t.Helper()
	test.OK(t, json.Unmarshal([]byte(message), &p))
	return p
}

func readNtfy(t *testing.T, message string) (title, text string) {
	p := readPost(t, message)
	text, command, _ := strings.Cut(p.Body, "\n")
	if asked := strings.HasPrefix(p.Title, "request"); p.Path != "/topic" ||
		asked != strings.HasPrefix(command, "symphony approve ABC-7.1 -w '/") {
		t.Errorf("the post is %+v", p)
	}
	return p.Title, text
}

func readSlack(t *testing.T, message string) (title, text string) {
	p := readPost(t, message)
	var body struct{ Text string }
	if err := json.Unmarshal([]byte(p.Body), &body); err != nil || p.Path != "/hook" ||
		p.Type != "application/json" {
		t.Errorf("the post is %+v: %v", p, err)
	}
	if strings.ContainsAny(body.Text, "<>") {
		t.Errorf("Slack would take a part of %q for a link", body.Text)
	}
	return "", html.UnescapeString(body.Text)
}

func readMail(t *testing.T, message string) (title, text string) {
	head, text, found := strings.Cut(message, "\n\n")
	title, _, _ = strings.Cut(head[strings.Index(head, "symphony: ")+len("symphony: "):], "\n")
	if !found || !strings.HasPrefix(head, "To: ann@example.com\nSubject: symphony: ") {
		t.Errorf("the mail is %q", message)
	}
	return title, text
}
