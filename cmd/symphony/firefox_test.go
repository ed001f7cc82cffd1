package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symphony-cron/symphony/internal/test"
)

// startFirefox lets each script start a Firefox of its own, one at a time: several that start
// at once take minutes on a busy machine.
func startFirefox(_ *testing.T, path string) func(ts *testscript.TestScript, b *browser) tab {
	var turn sync.Mutex
	return func(ts *testscript.TestScript, b *browser) tab {
		turn.Lock()
		ts.Defer(turn.Unlock)
		return openFirefox(ts, b, path)
	}
}

// firefoxTab implements tab by Marionette, the protocol between Firefox and geckodriver: each
// message is a JSON array behind its length.
type firefoxTab struct {
	b      *browser
	page   string // the address of the server
	cmd    *exec.Cmd
	conn   net.Conn
	in     *bufio.Reader
	number int
}

// firefoxSettings let Firefox choose a free port, begin with an empty page, and reach no other
// machine: its own services are behind a proxy that does not exist.
const firefoxSettings = `user_pref("marionette.port", 0);
user_pref("browser.startup.page", 0);
user_pref("browser.newtabpage.enabled", false);
user_pref("network.proxy.type", 1);
user_pref("network.proxy.http", "127.0.0.1");
user_pref("network.proxy.http_port", 9);
user_pref("network.proxy.ssl", "127.0.0.1");
user_pref("network.proxy.ssl_port", 9);
`

// openFirefox starts a Firefox with a new profile.
func openFirefox(ts *testscript.TestScript, b *browser, path string) *firefoxTab {
	profile := ts.MkAbs("firefox")
	ts.Check(os.Mkdir(profile, 0o700))
	ts.Check(os.WriteFile(filepath.Join(profile, "user.js"), []byte(firefoxSettings), 0o600))
	f := &firefoxTab{b: b, page: ts.Getenv("PAGE")}
	f.cmd = exec.Command(
		path,
		"--headless",
		"--no-remote",
		"--marionette",
		"--remote-allow-system-access",
		"--profile",
		profile,
	)
	f.cmd.Env = append(os.Environ(), "HOME="+profile)
	ts.Check(f.cmd.Start())
	ts.Defer(func() {
		_ = f.cmd.Process.Kill() // it has ended, unless the script failed
		_ = f.cmd.Wait()
	})
	waitFor(ts, "Firefox to listen", func() (bool, string) {
		port, err := os.ReadFile(filepath.Join(profile, "MarionetteActivePort"))
		if err == nil {
			f.conn, err = net.Dial("tcp", "127.0.0.1:"+string(port))
		}
		return err == nil, fmt.Sprint(err)
	})
	f.in = bufio.NewReader(f.conn)
	ctx, cancel := context.WithTimeout(context.Background(), test.Patience())
	defer cancel()
	// it greets
	ts.Check(errors.Join(f.conn.SetDeadline(time.Now().Add(test.Patience())), test.Err(f.receive())))
	ts.Check(test.Err(f.call(ctx, "WebDriver:NewSession", map[string]any{})))
	return f
}

// close ends Firefox, and adds the errors and warnings about pages of the server, which the
// console has kept, to the complaints.
func (f *firefoxTab) close(ts *testscript.TestScript) {
	ctx, cancel := context.WithTimeout(context.Background(), test.Patience())
	defer cancel()
	found, err := f.evaluateAs(ctx, "chrome", fmt.Sprintf(`Services.console.getMessageArray()
		.filter(m => m instanceof Ci.nsIScriptError && (m.sourceName + m.errorMessage).includes(%q))
		.map(m => m.category + ": " + m.errorMessage + " " + m.sourceName + ":" + m.lineNumber)`, f.page))
	if lines, is := found.([]any); is {
		for _, line := range lines {
			f.b.complain("console: " + line.(string))
		}
	}
	_, quit := f.call(ctx, "Marionette:Quit", map[string]any{"flags": []string{"eForceQuit"}})
	if quit == nil {
		quit = f.cmd.Wait()
	}
	if err = errors.Join(err, quit, f.conn.Close()); err != nil {
		ts.Fatalf("Firefox: %v", err)
	}
}

// receive reads one message.
func (f *firefoxTab) receive() ([]byte, error) {
	length, err := f.in.ReadString(':')
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(strings.TrimSuffix(length, ":"))
	if err != nil {
		return nil, err
	}
	message := make([]byte, n)
	_, err = io.ReadFull(f.in, message)
	return message, err
}

// call sends a command and returns the value of its answer.
func (f *firefoxTab) call(ctx context.Context, command string, parameters map[string]any) (any, error) {
	deadline, _ := ctx.Deadline()
	if err := f.conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	f.number++
	message := test.Must(json.Marshal([]any{0, f.number, command, parameters}))
	if _, err := fmt.Fprintf(f.conn, "%d:%s", len(message), message); err != nil {
		return nil, err
	}
	answer, err := f.receive()
	if err != nil {
		return nil, err
	}
	var failure *struct{ Error, Message string }
	var result map[string]any
	if err := json.Unmarshal(answer, &[]any{new(int), new(int), &failure, &result}); err != nil {
		return nil, err
	}
	if failure != nil {
		return nil, fmt.Errorf("%s: %s", failure.Error, failure.Message)
	}
	return result["value"], nil
}

// evaluateAs evaluates an expression in the page, context "content", or in the window of the
// browser, "chrome".
func (f *firefoxTab) evaluateAs(ctx context.Context, where, expression string) (any, error) {
	if _, err := f.call(ctx, "Marionette:SetContext", map[string]any{"value": where}); err != nil {
		return nil, err
	}
	value, err := f.call(ctx, "WebDriver:ExecuteScript", map[string]any{
		"script": "return (" + expression + ")",
		"args":   []any{},
	})
	return value, errors.Join(
		err,
		test.Err(f.call(ctx, "Marionette:SetContext", map[string]any{"value": "content"})),
	)
}

func (f *firefoxTab) tellsAtOnce() bool { return false }

func (f *firefoxTab) open(ctx context.Context, url string) error {
	return test.Err(f.call(ctx, "WebDriver:Navigate", map[string]any{"url": url}))
}

func (f *firefoxTab) evaluate(ctx context.Context, expression string) (any, error) {
	return f.evaluateAs(ctx, "content", expression)
}

// use repeats a command on the first element that matches until it can be used.
func (f *firefoxTab) use(ctx context.Context, command, selector string, parameters map[string]any) error {
	return untilUsable(ctx, func() error {
		found, err := f.call(ctx, "WebDriver:FindElement", map[string]any{
			"using": "css selector",
			"value": selector,
		})
		if err != nil {
			return err
		}
		for _, id := range found.(map[string]any) {
			parameters["id"] = id
		}
		return test.Err(f.call(ctx, command, parameters))
	})
}

func (f *firefoxTab) click(ctx context.Context, selector string) error {
	return f.use(ctx, "WebDriver:ElementClick", selector, map[string]any{})
}

func (f *firefoxTab) fill(ctx context.Context, selector, text string) error {
	return f.use(ctx, "WebDriver:ElementSendKeys", selector, map[string]any{"text": text})
}

func (f *firefoxTab) press(ctx context.Context, key string) error {
	named := map[string]string{
		"Enter":     "\ue007",
		"Escape":    "\ue00c",
		"Tab":       "\ue004",
		"ArrowDown": "\ue015",
	}
	const control = "\ue009"
	var actions []map[string]string
	add := func(kind, value string) {
		actions = append(actions, map[string]string{
			"type":  kind,
			"value": value,
		})
	}
	if held, is := strings.CutPrefix(key, "Control+"); is {
		add("keyDown", control)
		key = held
	} else if named[key] != "" {
		key = named[key]
	}
	for _, r := range key {
		add("keyDown", string(r))
		add("keyUp", string(r))
	}
	if len(actions)%2 != 0 {
		add("keyUp", control)
	}
	return test.Err(f.call(ctx, "WebDriver:PerformActions",
		map[string]any{"actions": []any{map[string]any{
			"type":    "key",
			"id":      "keyboard",
			"actions": actions,
		}}}))
}

// setInWindow sets something about the tab in the window of the browser.
func (f *firefoxTab) setInWindow(ctx context.Context, assignment string) error {
	return test.Err(f.evaluateAs(ctx, "chrome", "(b => { "+assignment+" })(gBrowser.selectedBrowser)"))
}

func (f *firefoxTab) allowScripts(ctx context.Context, allowed bool) error {
	return f.setInWindow(ctx, fmt.Sprintf("b.browsingContext.allowJavascript = %t", allowed))
}

// setSize sets the size of the page: the window can't be as narrow as a phone.
func (f *firefoxTab) setSize(ctx context.Context, width, height int64) error {
	if _, err := f.call(ctx, "WebDriver:SetWindowRect", map[string]any{
		"width":  width,
		"height": height,
	}); err != nil {
		return err
	}
	return f.setInWindow(
		ctx,
		fmt.Sprintf(`for (const side of ["width", "min-width", "max-width"]) b.style.setProperty(side, "%dpx")
		for (const side of ["height", "min-height", "max-height"]) b.style.setProperty(side, "%dpx")`, width, height),
	)
}

func (f *firefoxTab) setTheme(ctx context.Context, theme string) error {
	return f.setInWindow(ctx, fmt.Sprintf("b.browsingContext.top.prefersColorSchemeOverride = %q", theme))
}
