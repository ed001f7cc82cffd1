package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/symphony-cron/symphony/internal/test"
)

// TestBrowser runs the scripts in testdata/browser, which open the pages of the server in a real Chromium.
func TestBrowser(t *testing.T) {
	test.Expensive(t)
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed")
	}
	t.Parallel()
	ctx := startChromium(t, path)
	p := params(t, "browser")
	useBrowser(&p, ctx)
	testscript.Run(t, p)
}

// useBrowser lets scripts use the browser.
func useBrowser(p *testscript.Params, ctx context.Context) {
	setup := p.Setup
	p.Setup = func(env *testscript.Env) error {
		env.Values[browserKey{}] = &browser{parent: ctx}
		return setup(env)
	}
	p.Cmds["browse"] = browseCmd
}

// startChromium starts a browser and returns its context. All scripts share it; each has its own cookies.
func startChromium(t *testing.T, path string) context.Context {
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	allocated, release := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, _ := chromedp.NewContext(allocated)
	t.Cleanup(func() {
		defer release()
		test.OK(t, chromedp.Cancel(ctx))
	})
	test.OK(t, chromedp.Do(ctx, chromedp.Navigate("about:blank")))
	return ctx
}

// browser is the browser of one script: its pages share cookies, and the last one opened is the current one.
type browser struct {
	parent context.Context
	tab    context.Context // nil before the first page

	mu sync.Mutex
	// complaints are what the pages wrote to the console, and their requests to other hosts.
	complaints []string
}

type browserKey struct{}

// browseCmd works in the browser of the script. What a page writes to the console and a request to another host fail the script.
//
//	browse open PATH            opens a page of the server
//	browse until EXPRESSION     waits until the JavaScript expression is true
//	browse text PATTERN         waits until the text of the page matches
//	browse click SELECTOR       clicks the first element that matches
//	browse fill SELECTOR TEXT   types into a field
//	browse key NAME|TEXT        presses Enter, Escape, Tab, ArrowDown, Control+LETTER, or the keys of the text
//	browse scripts off|on       as the setting of the browser, for the next page
//	browse size WIDTH HEIGHT    of the window in CSS pixels
//	browse theme light|dark     that of the system
//	browse clock TIME           stops the clock of the next pages
//	browse expect PATTERN       a line of the console that is not an error of the page; once
//	browse axe                  checks the page for violations of WCAG AA, with the columns of a phone and of a screen in both themes
func browseCmd(ts *testscript.TestScript, neg bool, args []string) {
	b := ts.Value(browserKey{}).(*browser)
	verb, args := args[0], args[1:]
	do, known := browserVerbs()[verb]
	if !known {
		ts.Fatalf("browse: unknown %q", verb)
	}
	if b.tab == nil {
		b.start(ts)
	}
	ctx, cancel := context.WithTimeout(b.tab, test.Patience())
	defer cancel()
	if err := do(ctx, ts, b, args); err != nil {
		text, _ := chromedp.Run(b.tab, chromedp.Evaluate[string](`location.href + "\n" + document.body.innerText`))
		ts.Fatalf("browse %s %s: %v\n%s", verb, strings.Join(args, " "), err, text)
	}
}

// start opens the tab of the script and listens to it.
func (b *browser) start(ts *testscript.TestScript) {
	tab, cancel := chromedp.NewContext(b.parent, chromedp.WithNewBrowserContext())
	ts.Check(chromedp.Do(tab, chromedp.Navigate("about:blank")))
	b.tab = tab
	var listening sync.WaitGroup
	listening.Go(func() {
		for m, err := range chromedp.Console(tab) {
			if err != nil {
				return
			}
			b.complain("console: " + m.String())
		}
	})
	listening.Go(func() {
		for e, err := range chromedp.Events(tab, network.RequestWillBeSent) {
			if err != nil {
				return
			}
			if url := e.Request.URL; !strings.HasPrefix(url, ts.Getenv("PAGE")+"/") && !strings.HasPrefix(url, "data:") && url != "about:blank" {
				b.complain("request to another host: " + url)
			}
		}
	})
	ts.Defer(func() {
		cancel()
		listening.Wait()
		if len(b.complaints) > 0 {
			ts.Fatalf("the pages complained:\n%s", strings.Join(b.complaints, "\n"))
		}
	})
}

func (b *browser) complain(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complaints = append(b.complaints, text)
}

type browserVerb = func(ctx context.Context, ts *testscript.TestScript, b *browser, args []string) error

func browserVerbs() map[string]browserVerb {
	do := func(action func(ts *testscript.TestScript, args []string) chromedp.Action[chromedp.Void]) browserVerb {
		return func(ctx context.Context, ts *testscript.TestScript, _ *browser, args []string) error {
			return chromedp.Do(ctx, action(ts, args))
		}
	}
	return map[string]browserVerb{
		"open": do(func(ts *testscript.TestScript, args []string) chromedp.Action[chromedp.Void] {
			return chromedp.Navigate(ts.Getenv("PAGE") + args[0])
		}),
		"click": do(func(_ *testscript.TestScript, args []string) chromedp.Action[chromedp.Void] {
			return chromedp.Click(chromedp.CSS(args[0]))
		}),
		"fill": do(func(_ *testscript.TestScript, args []string) chromedp.Action[chromedp.Void] {
			return chromedp.SendKeys(chromedp.CSS(args[0]), args[1])
		}),
		"key": do(func(_ *testscript.TestScript, args []string) chromedp.Action[chromedp.Void] {
			named := map[string]string{"Enter": kb.Enter, "Escape": kb.Escape, "Tab": kb.Tab, "ArrowDown": kb.ArrowDown}
			if key := named[args[0]]; key != "" {
				return chromedp.KeyEvent(key)
			}
			if key, is := strings.CutPrefix(args[0], "Control+"); is {
				return chromedp.KeyEvent(key, chromedp.KeyModifiers(chromedp.ModifierCtrl))
			}
			return pressKeys(args[0])
		}),
		"until": func(ctx context.Context, ts *testscript.TestScript, _ *browser, args []string) error {
			return untilTrue(ctx, ts, args[0])
		},
		"text": func(ctx context.Context, ts *testscript.TestScript, _ *browser, args []string) error {
			return untilTrue(ctx, ts, fmt.Sprintf("new RegExp(%s, 'm').test(document.body.innerText)", strconv.Quote(args[0])))
		},
		"scripts": func(ctx context.Context, _ *testscript.TestScript, _ *browser, args []string) error {
			_, err := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: args[0] == "off"})
			return err
		},
		"size": func(ctx context.Context, _ *testscript.TestScript, _ *browser, args []string) error {
			return setSize(ctx, test.Must(strconv.ParseInt(args[0], 10, 64)), test.Must(strconv.ParseInt(args[1], 10, 64)))
		},
		"theme": func(ctx context.Context, _ *testscript.TestScript, _ *browser, args []string) error {
			return setTheme(ctx, args[0])
		},
		"clock":  stopClock,
		"expect": expectComplaint,
		"axe":    runAxe,
	}
}

// untilTrue evaluates the expression until it is true. It outlives a navigation.
func untilTrue(ctx context.Context, ts *testscript.TestScript, expression string) (err error) {
	waitFor(ts, expression, func() (done bool, last string) {
		done, err = chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		return done || ctx.Err() != nil, fmt.Sprint(err)
	})
	return ctx.Err()
}

// pressKeys presses keys as a keyboard does: a page that handles a key keeps it out of a field.
func pressKeys(text string) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, _ *chromedp.Target) (chromedp.Void, error) {
		for _, r := range text {
			for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown, input.DispatchKeyEventTypeKeyUp} {
				e := input.DispatchKeyEventParams{Type: kind, Key: string(r)}
				if kind == input.DispatchKeyEventTypeKeyDown {
					e.Text = string(r)
				}
				if _, err := chromedp.Call(ctx, input.DispatchKeyEvent, e); err != nil {
					return chromedp.Void{}, err
				}
			}
		}
		return chromedp.Void{}, nil
	}
}

func setSize(ctx context.Context, width, height int64) error {
	_, err := chromedp.Call(ctx, emulation.SetDeviceMetricsOverride,
		emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 500})
	return err
}

func setTheme(ctx context.Context, theme string) error {
	_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia,
		emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}})
	return err
}

// stopClock stops the clock of scripts, where the clock of the program is stopped, too.
func stopClock(ctx context.Context, _ *testscript.TestScript, _ *browser, args []string) error {
	return onLoad(ctx, fmt.Sprintf("Date.now = () => Date.parse(%q)", args[0]))
}

// onLoad evaluates a script in each page before its own.
func onLoad(ctx context.Context, source string) error {
	_, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: source})
	return err
}

// expectComplaint waits for a complaint that matches and forgets it.
func expectComplaint(_ context.Context, ts *testscript.TestScript, b *browser, args []string) error {
	pattern, err := regexp.Compile(args[0])
	ts.Check(err)
	waitFor(ts, "a complaint: "+args[0], func() (bool, string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		i := slices.IndexFunc(b.complaints, pattern.MatchString)
		if i >= 0 {
			b.complaints = slices.Delete(b.complaints, i, i+1)
		}
		return i >= 0, fmt.Sprint(b.complaints)
	})
	return nil
}

// runAxe runs axe-core, whose file SYMPHONY_TEST_AXE names. The browser evaluates it outside the page's content security policy.
func runAxe(ctx context.Context, ts *testscript.TestScript, _ *browser, _ []string) error {
	path := os.Getenv("SYMPHONY_TEST_AXE")
	if path == "" {
		ts.Logf("SYMPHONY_TEST_AXE names no axe.min.js: the page is not checked")
		return nil
	}
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := chromedp.Do(ctx, chromedp.Evaluate[chromedp.Void](string(source))); err != nil {
		return err
	}
	for _, width := range []int64{390, 1280, 3840} {
		for _, theme := range []string{"light", "dark"} {
			if err := errors.Join(setTheme(ctx, theme), setSize(ctx, width, 900)); err != nil {
				return err
			}
			found, err := chromedp.Run(ctx, chromedp.Evaluate[string](axeRun, chromedp.EvalAwaitPromise))
			if err != nil || found != "" {
				return fmt.Errorf("%s, %d px: %w\n%s", theme, width, err, found)
			}
		}
	}
	return errors.Join(setTheme(ctx, "light"), setSize(ctx, 1280, 900))
}

// axeRun describes the violations, one in a line. A horizontal scroll bar of the page is one, too (WCAG 1.4.10), and so are a target for
// a finger that has fewer than 44 pixels, unless it is a word of a text (2.5.5), and a window whose width is not used.
const axeRun = `axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}).then(r =>
	r.violations.flatMap(v => v.nodes.map(n => v.id + ": " + n.target + ": " + n.failureSummary.replaceAll("\n", " "))).join("\n") +
	[...document.querySelectorAll(".card")].filter(e => e.scrollWidth > e.clientWidth).map(e => "a card is narrower than its content: " + (e.id || e.className)).join("\n") +
	(document.documentElement.scrollWidth > innerWidth ? "the page is wider than the window: " + document.documentElement.scrollWidth : "") +
	(innerWidth > 500 ? [] : [...document.querySelectorAll("button, summary, select, input, textarea, nav a, a.button, a.badge, a[data-item]")].filter(e => {
		const target = e.closest("label") ?? e, box = target.getBoundingClientRect()
		return e.checkVisibility() && box.width > 1 && (box.width < 44 || box.height < 44)
	}).map(e => "a target is too small: " + e.outerHTML.slice(0, 120))).join("\n") +
	(innerWidth < 3000 || document.querySelector("main").clientWidth > innerWidth * 0.95 ? "" : "the window is not used"))`

// picturesCmd writes pictures of pages of the server: docs/screens/web-NAME.webp of the first one, light, dark and on a phone, and
// docs/screens/web-NAME-issue.webp of a second one. It does so only with UPDATE_PICTURES=1: pictures NAME PATH [PATH]
func picturesCmd(ts *testscript.TestScript, neg bool, args []string) {
	if os.Getenv("UPDATE_PICTURES") == "" {
		return
	}
	now, err := os.ReadFile(ts.Getenv(clockVar))
	ts.Check(err)
	// Where cron has run passes, it has run one each minute.
	for _, db := range test.Must(filepath.Glob(filepath.Join(ts.Getenv("HOME"), ".local/state/symphony/*/state.db"))) {
		_, err := query(filepath.Dir(db), fmt.Sprintf(`UPDATE passes SET "trigger" = 'cron', boot_id = '',
			started_at = 1000 * (strftime('%%s', '%s') - 20 - 60 * ((SELECT max(id) FROM passes) - id))
			WHERE (SELECT count(*) FROM passes WHERE "trigger" = 'cron')`, strings.TrimSpace(string(now))))
		ts.Check(err)
	}
	serveCmd(ts, false, nil)
	b := ts.Value(browserKey{}).(*browser)
	b.start(ts)
	ctx, cancel := context.WithTimeout(b.tab, test.Patience())
	defer cancel()
	ts.Check(stopClock(ctx, ts, b, []string{string(now)}))
	// The home directory is that of the screens of the terminal.
	ts.Check(onLoad(ctx, fmt.Sprintf(`new MutationObserver(() => {
		const all = document.createTreeWalker(document, NodeFilter.SHOW_TEXT)
		while (all.nextNode()) if (all.currentNode.data.includes(%[1]q)) all.currentNode.data = all.currentNode.data.replaceAll(%[1]q, %[2]q)
	}).observe(document, {childList: true, subtree: true, characterData: true})`, ts.Getenv("HOME"), screenHome)))
	ts.Check(chromedp.Do(ctx, chromedp.Navigate(ts.Getenv("PAGE")+ts.Getenv("LINK"))))
	for _, p := range []struct {
		page          int
		suffix, theme string
		width, height int64
	}{{0, "", "light", 1280, 800}, {0, "-dark", "dark", 1280, 800}, {0, "-phone", "light", 390, 844}, {1, "-issue", "light", 1280, 1000}} {
		if p.page+1 >= len(args) {
			break
		}
		ts.Check(errors.Join(setTheme(ctx, p.theme), setSize(ctx, p.width, p.height)))
		ts.Check(chromedp.Do(ctx, chromedp.Navigate(ts.Getenv("PAGE")+args[1+p.page])))
		quality := int64(85)
		picture, err := chromedp.Call(ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatWebp, Quality: &quality})
		ts.Check(err)
		ts.Check(os.WriteFile(filepath.Join(moduleRoot, "docs", "screens", "web-"+args[0]+p.suffix+".webp"), picture.Data, 0o644))
	}
}
