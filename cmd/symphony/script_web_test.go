package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/symphony-cron/symphony/internal/test"
)

// serveCmd starts symphony serve in the background, at a free port. It sets $URL, without a
// slash at its end, $PAGE, which is the same with the server's secret name, $LINK, the path of
// the printed link, and $TOKEN. The end of the script ends the server, which must then have
// printed nothing on stderr: serve [FLAG|WORKFLOW...]
func serveCmd(ts *testscript.TestScript, neg bool, args []string) {
	program, err := inPath(ts.Getenv("PATH"), "symphony")
	ts.Check(err)
	cmd := exec.Command(program, append([]string{"serve", "--port", "0"}, args...)...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = scriptEnv(ts)
	log, err := os.Create(filepath.Join(ts.Getenv("WORK"), "serve.log"))
	ts.Check(err)
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ended := make(chan error, 1)
	ts.Defer(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := <-ended; err != nil {
			ts.Logf("serve: %v", err)
		}
		log.Close()
		if text, err := os.ReadFile(log.Name()); err != nil || len(text) > 0 {
			ts.Fatalf("serve printed on stderr: %s %v", text, err)
		}
	})
	lines := bufio.NewReader(out)
	for _, want := range []struct{ name, before string }{
		{"URL", "serving at "},
		{"LINK", "once: "},
		{"TOKEN", "the token "},
	} {
		line, _ := lines.ReadString('\n')
		_, value, found := strings.Cut(strings.TrimSpace(line), want.before)
		if !found {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			text, _ := os.ReadFile(log.Name())
			ended <- cmd.Wait()
			ts.Fatalf("serve printed %q: %s", line, text)
		}
		setVar(ts, want.name, strings.TrimSuffix(value, "/"))
	}
	page, link, _ := strings.Cut(ts.Getenv("LINK"), "/login")
	setVar(ts, "PAGE", page)
	setVar(ts, "LINK", "/login"+link)
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		ended <- cmd.Wait()
	}()
}

// httpCmd sends a request to the server of the script. The status line, the headers and the
// body of the answer are then in stdout. An argument with a colon after a name is a header,
// another one the body, which is a form unless it begins with a brace: http METHOD PATH
// [HEADER|BODY...]
func httpCmd(ts *testscript.TestScript, neg bool, args []string) {
	fmt.Fprint(ts.Stdout(), request(ts, args...))
}

// request sends a request as httpCmd does, and returns the answer.
func request(ts *testscript.TestScript, args ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), test.Patience())
	defer cancel()
	header := http.Header{}
	body := ""
	for _, arg := range args[2:] {
		if m := headerPattern.FindStringSubmatch(arg); m != nil {
			header.Set(m[1], m[2])
		} else {
			body = arg
		}
	}
	if body != "" && header.Get("Content-Type") == "" {
		header.Set("Content-Type", "application/x-www-form-urlencoded")
		if body[0] == '{' {
			header.Set("Content-Type", "application/json")
		}
	}
	r, err := http.NewRequestWithContext(ctx, args[0], ts.Getenv("URL")+args[1], strings.NewReader(body))
	ts.Check(err)
	r.Header = header
	if host := header.Get("Host"); host != "" {
		r.Host = host
	}
	client := &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(r)
	ts.Check(err)
	defer answer.Body.Close()
	var text strings.Builder
	text.WriteString(answer.Status + "\n")
	ts.Check(answer.Header.Write(&text))
	text.WriteString("\n")
	_, err = io.Copy(&text, answer.Body)
	ts.Check(err)
	return text.String()
}

var headerPattern = regexp.MustCompile(`^([A-Z][A-Za-z-]*): ?(.*)$`)

// examplesCmd runs the examples of a document about the API in $PASTED_INTO, bash or zsh, with
// $SERVER and $TOKEN, and with ABC for the team WEB. Each line of a block of shell that begins with curl has to print
// something, and the last line of a block the members of the JSON that follows it, with their
// types: examples DOCUMENT
func examplesCmd(ts *testscript.TestScript, neg bool, args []string) {
	text, err := os.ReadFile(filepath.Join(moduleRoot, args[0]))
	ts.Check(err)
	ran := 0
	for _, m := range examplePattern.FindAllStringSubmatch(strings.ReplaceAll(string(text), "WEB-", "ABC-"), -1) {
		out := ""
		for line := range strings.Lines(m[1]) {
			if !strings.HasPrefix(line, "curl ") {
				continue
			}
			_, number, _ := strings.Cut(requestNumber.FindString(line), ".")
			// the agent asks the next question when the last one is answered
			if ref := requestNumber.FindString(line); number != "" {
				waitFor(ts, ref+" to be asked", func() (bool, string) {
					err := ts.Exec("symphony", "ps")
					shown := ts.ReadFile("stdout")
					return err == nil && strings.Contains(shown, "request\t"+ref+"\t"), shown
				})
			}
			ts.Check(ts.Exec(ts.Getenv("PASTED_INTO"), "-c", "SERVER=$URL; "+line))
			out = ts.ReadFile("stdout")
			failed := strings.HasPrefix(out, `{"error"`) && !strings.HasPrefix(m[2], `{"error"`)
			if failed || strings.TrimSpace(out) == "" || out == "null\n" {
				ts.Fatalf("%s printed %s", line, out)
			}
			ran++
		}
		if m[2] == "" {
			continue
		}
		var want, got any
		ts.Check(json.Unmarshal([]byte(m[2]), &want))
		ts.Check(json.Unmarshal([]byte(out), &got))
		for _, path := range pathsOf(want, "") {
			if !slices.Contains(pathsOf(got, ""), path) {
				ts.Fatalf("%s: the answer to %s lacks %s: %s", args[0], m[1], path, out)
			}
		}
	}
	if ran < 10 {
		ts.Fatalf("only %d examples", ran)
	}
}

var (
	examplePattern = regexp.MustCompile("(?s)```sh\n(.*?)```(?:\n\n```json\n(.*?)```)?")
	requestNumber  = regexp.MustCompile(`ABC-\d+\.\d+`)
)
