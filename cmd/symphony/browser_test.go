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
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symphony-cron/symphony/internal/test"
	"github.com/symphony-cron/symphony/internal/text"
)

// TestBrowser runs the scripts in testdata/browser, which open the pages of the server in a
// real Chromium, those of the main walks also in a real Firefox.
func TestBrowser(t *testing.T) {
	test.Expensive(t)
	t.Parallel()
	for name, start := range map[string]func(t *testing.T, path string) func(ts *testscript.TestScript, b *browser) tab{
		"chromium": startChromium, "firefox": startFirefox,
	} {
		t.Run(name, func(t *testing.T) {
			path, err := exec.LookPath(name)
			if err != nil {
				t.Skip(name + " is not installed")
			}
			t.Parallel()
			p := params(t, "browser")
			if name == "firefox" {
				p.Files = text.Map(
					[]string{"keyboard", "live", "many", "run", "walks"},
					func(name string) string {
						return filepath.Join(p.Dir, name+".txtar")
					},
				)
				p.Dir = ""
			}
			useBrowser(&p, start(t, path))
			testscript.Run(t, p)
		})
	}
}

// useBrowser lets scripts use the browser whose tabs open makes.
func useBrowser(p *testscript.Params, open func(ts *testscript.TestScript, b *browser) tab) {
	setup := p.Setup
	p.Setup = func(env *testscript.Env) error {
		env.Values[browserKey{}] = &browser{openTab: open}
		return setup(env)
	}
	p.Cmds["browse"] = browseCmd
}

// browser is the browser of one script: its pages share cookies, and the last one opened is
// the current one.
type browser struct {
	openTab func(ts *testscript.TestScript, b *browser) tab
	tab     tab // nil before the first page

	mu sync.Mutex
	// complaints are what the pages wrote to the console, and their requests to other hosts.
	complaints []string
	expected   []*regexp.Regexp // of a browser that complains at its end

	walk walk
}

// walk is what steps in the browser cost a reader.
type walk struct {
	began        time.Time
	page         any // when the current one was loaded
	steps, loads int
}

// count adds a step that a verb has been, and the load of a page that it has caused.
func (w *walk) count(ctx context.Context, b *browser, verb string) {
	switch verb {
	case "click", "key", "fill":
		w.steps++
	case "open", "until", "text":
		if page, err := b.tab.evaluate(ctx, "performance.timeOrigin"); err == nil && page != w.page {
			w.page = page
			w.loads++
		}
	}
}

// logWalk logs the walk that ends here, and begins the next one.
func logWalk(_ context.Context, ts *testscript.TestScript, b *browser, args []string) error {
	w := &b.walk
	if len(args) > 0 {
		ts.Logf(
			"walk: %s: %d steps, %d loads, %.1f s",
			args[0],
			w.steps,
			w.loads,
			time.Since(w.began).Seconds(),
		)
	}
	w.began = time.Now()
	w.steps = 0
	w.loads = 0
	return nil
}

// tab is the tab of a script in one of the browsers.
type tab interface {
	open(ctx context.Context, url string) error
	// evaluate returns the value of a JavaScript expression, or that of its promise.
	evaluate(ctx context.Context, expression string) (any, error)
	click(ctx context.Context, selector string) error
	fill(ctx context.Context, selector, text string) error
	press(ctx context.Context, key string) error
	allowScripts(ctx context.Context, allowed bool) error
	setSize(ctx context.Context, width, height int64) error
	setTheme(ctx context.Context, theme string) error
	// tellsAtOnce reports whether the browser complains while the script runs.
	tellsAtOnce() bool
	// close ends the tab when all its complaints are known.
	close(ts *testscript.TestScript)
}

// untilUsable repeats the use of an element until it succeeds: the page may have replaced the
// element since it was found.
func untilUsable(ctx context.Context, use func() error) error {
	var last error
	for {
		err := use()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return errors.Join(err, last)
		}
		last = err
		time.Sleep(50 * time.Millisecond)
	}
}

type browserKey struct{}

// browseCmd works in the browser of the script. What a page writes to the console and a
// request to another host fail the script.
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
//	browse expect PATTERN       a line of the console that is not an error of the page; once, and
//	                            Firefox may have several or none
//	browse walk [WHAT]          logs what the steps since the last walk have cost a reader: clicks
//	                            and keys, loads of pages, and seconds
//	browse fits                 checks that the page fits windows of all widths
//	browse axe                  checks the page for violations of WCAG AA, with the columns of a
//	                            phone and of a screen in both themes
func browseCmd(ts *testscript.TestScript, neg bool, args []string) {
	b := ts.Value(browserKey{}).(*browser)
	verb := args[0]
	args = args[1:]
	do, known := browserVerbs()[verb]
	if !known {
		ts.Fatalf("browse: unknown %q", verb)
	}
	if b.tab == nil {
		b.start(ts)
	}
	ctx, cancel := context.WithTimeout(context.Background(), test.Patience())
	defer cancel()
	if err := do(ctx, ts, b, args); err != nil {
		text, _ := b.tab.evaluate(context.Background(), `location.href + "\n" + document.body.innerText`)
		ts.Fatalf("browse %s %s: %v\n%s", verb, strings.Join(args, " "), err, text)
	}
	b.walk.count(ctx, b, verb)
}

// start opens the tab of the script and listens to it.
func (b *browser) start(ts *testscript.TestScript) {
	b.tab = b.openTab(ts, b)
	ts.Defer(func() {
		b.tab.close(ts)
		if len(b.complaints) > 0 {
			ts.Fatalf("the pages complained:\n%s", strings.Join(b.complaints, "\n"))
		}
	})
}

func (b *browser) complain(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if slices.ContainsFunc(b.expected, func(p *regexp.Regexp) bool { return p.MatchString(text) }) {
		return
	}
	b.complaints = append(b.complaints, text)
}

type browserVerb = func(ctx context.Context, ts *testscript.TestScript, b *browser, args []string) error

func browserVerbs() map[string]browserVerb {
	return map[string]browserVerb{
		"open": func(ctx context.Context, ts *testscript.TestScript, b *browser, args []string) error {
			return b.tab.open(ctx, ts.Getenv("PAGE")+args[0])
		},
		"click": func(ctx context.Context, _ *testscript.TestScript, b *browser, args []string) error {
			return b.tab.click(ctx, args[0])
		},
		"fill": func(ctx context.Context, _ *testscript.TestScript, b *browser, args []string) error {
			return b.tab.fill(ctx, args[0], args[1])
		},
		"key": func(ctx context.Context, _ *testscript.TestScript, b *browser, args []string) error {
			return b.tab.press(ctx, args[0])
		},
		"until": func(ctx context.Context, ts *testscript.TestScript, b *browser, args []string) error {
			return b.untilTrue(ctx, ts, args[0])
		},
		"text": func(ctx context.Context, ts *testscript.TestScript, b *browser, args []string) error {
			return b.untilTrue(
				ctx,
				ts,
				fmt.Sprintf("new RegExp(%s, 'm').test(document.body.innerText)", strconv.Quote(args[0])),
			)
		},
		"scripts": func(ctx context.Context, _ *testscript.TestScript, b *browser, args []string) error {
			return b.tab.allowScripts(ctx, args[0] == "on")
		},
		"size": func(ctx context.Context, _ *testscript.TestScript, b *browser, args []string) error {
			return b.tab.setSize(
				ctx,
				test.Must(strconv.ParseInt(args[0], 10, 64)),
				test.Must(strconv.ParseInt(args[1], 10, 64)),
			)
		},
		"theme": func(ctx context.Context, _ *testscript.TestScript, b *browser, args []string) error {
			return b.tab.setTheme(ctx, args[0])
		},
		"walk":   logWalk,
		"expect": expectComplaint,
		"axe":    runAxe,
		"fits":   runFits,
	}
}

// untilTrue evaluates the expression until it is true. It outlives a navigation.
func (b *browser) untilTrue(ctx context.Context, ts *testscript.TestScript, expression string) error {
	waitFor(ts, expression, func() (bool, string) {
		done, err := b.tab.evaluate(ctx, "!!("+expression+")")
		return done == true || ctx.Err() != nil, fmt.Sprint(err)
	})
	return ctx.Err()
}

// expectComplaint waits for a complaint that matches and forgets it.
func expectComplaint(_ context.Context, ts *testscript.TestScript, b *browser, args []string) error {
	pattern, err := regexp.Compile(args[0])
	ts.Check(err)
	if !b.tab.tellsAtOnce() {
		b.expected = append(b.expected, pattern)
		return nil
	}
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

// layoutWidths are the widths of windows that a page has to fit: phones, tablets and screens.
var layoutWidths = []int64{320, 390, 768, 820, 1024, 1280, 1440, 1920, 3840}

// runFits looks at the page in windows of all widths, as it is at first and with everything
// opened.
func runFits(ctx context.Context, ts *testscript.TestScript, b *browser, _ []string) error {
	for _, width := range layoutWidths {
		if err := b.tab.setSize(ctx, width, 900); err != nil {
			return err
		}
		found, err := b.tab.evaluate(ctx, fmt.Sprintf(fitsRun, width))
		if err != nil {
			return err
		}
		if found != "" {
			return fmt.Errorf("%d px:\n%v", width, found)
		}
	}
	return nil
}

// fitsRun describes what does not fit a window of a width: a page or a card that is wider, a
// list whose titles have fewer than 200 pixels, and a diff whose lines of code begin at more
// places than it has sides.
const fitsRun = `((width) => {
	for (const e of document.querySelectorAll("main details")) e.open = true
	const shown = (selector) => [...document.querySelectorAll(selector)].filter(e => e.checkVisibility())
	const wide = shown("body *").filter(e => e.getBoundingClientRect().right > width + 1 && !e.closest(".lines, pre, .scroll, .tabs"))
	const cards = shown(".card").filter(e => e.scrollWidth > e.clientWidth + 1)
	const titles = shown(".list .main").filter(e => e.clientWidth < 200)
	const diffs = shown(".lines").filter(e => {
		const from = new Set([...e.querySelectorAll("code")].filter(c => c.checkVisibility()).map(c => Math.round(c.getBoundingClientRect().left)))
		const pair = e.matches(".review .sides") ? e.querySelector(".pair") : null
		const sides = pair ? getComputedStyle(pair).gridTemplateColumns.split(" ").length : 1
		return from.size > sides
	})
	return [
		...(document.documentElement.scrollWidth > width ? ["the page has " + document.documentElement.scrollWidth + " px"] : []),
		...wide.slice(0, 5).map(e => "beyond the window: " + e.outerHTML.slice(0, 120)),
		...cards.map(e => "a card is narrower than its content: " + (e.id || e.className)),
		...titles.slice(0, 1).map(e => "the title of an issue has " + e.clientWidth + " px"),
		...diffs.map(e => "code begins at several places: " + e.ariaLabel),
	].join("\n")
})(%d)`

// runAxe runs axe-core, whose file SYMPHONY_TEST_AXE names. The browser evaluates it outside
// the page's content security policy.
func runAxe(ctx context.Context, ts *testscript.TestScript, b *browser, _ []string) error {
	path := os.Getenv("SYMPHONY_TEST_AXE")
	if path == "" {
		ts.Logf("SYMPHONY_TEST_AXE names no axe.min.js: the page is not checked")
		return nil
	}
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if _, err := b.tab.evaluate(ctx, "(() => {"+string(source)+"})()"); err != nil {
		return err
	}
	for _, width := range []int64{390, 1280, 3840} {
		for _, theme := range []string{"light", "dark"} {
			if err := errors.Join(b.tab.setTheme(ctx, theme), b.tab.setSize(ctx, width, 900)); err != nil {
				return err
			}
			found, err := b.tab.evaluate(ctx, axeRun)
			if err != nil || found != "" {
				return fmt.Errorf("%s, %d px: %w\n%v", theme, width, err, found)
			}
		}
	}
	return errors.Join(b.tab.setTheme(ctx, "light"), b.tab.setSize(ctx, 1280, 900))
}

// axeRun describes the violations, one in a line. A horizontal scroll bar of the page is one,
// too (WCAG 1.4.10), and so are a target for a finger that has fewer than 44 pixels, unless it
// is a word of a text (2.5.5), and a window whose width is not used.
const axeRun = `axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}).then(r =>
	r.violations.flatMap(v => v.nodes.map(n => v.id + ": " + n.target + ": " + n.failureSummary.replaceAll("\n", " "))).join("\n") +
	[...document.querySelectorAll(".card")].filter(e => e.scrollWidth > e.clientWidth).map(e => "a card is narrower than its content: " + (e.id || e.className)).join("\n") +
	(document.documentElement.scrollWidth > innerWidth ? "the page is wider than the window: " + document.documentElement.scrollWidth : "") +
	(innerWidth > 500 ? [] : [...document.querySelectorAll("button, summary, select, input, textarea, nav a, a.button, a.badge, a[data-item]")].filter(e => {
		const target = e.closest("label") ?? e, box = target.getBoundingClientRect()
		return e.checkVisibility() && box.width > 1 && (box.width < 44 || box.height < 44)
	}).map(e => "a target is too small: " + e.outerHTML.slice(0, 120))).join("\n") +
	(innerWidth < 3000 || document.querySelector("main").clientWidth > innerWidth * 0.95 ? "" : "the window is not used"))`
