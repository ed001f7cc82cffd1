package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

// startChromium starts a Chromium. All scripts share it; each has its own cookies.
func startChromium(t *testing.T, path string) func(ts *testscript.TestScript, b *browser) tab {
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
	return func(ts *testscript.TestScript, b *browser) tab { return openChromiumTab(ctx, ts, b) }
}

// chromiumTab implements tab.
type chromiumTab struct {
	target    context.Context
	cancel    context.CancelFunc
	listening *sync.WaitGroup
}

// openChromiumTab opens a tab and listens to it.
func openChromiumTab(parent context.Context, ts *testscript.TestScript, b *browser) *chromiumTab {
	target, cancel := chromedp.NewContext(parent, chromedp.WithNewBrowserContext())
	ts.Check(chromedp.Do(target, chromedp.Navigate("about:blank")))
	c := &chromiumTab{target, cancel, new(sync.WaitGroup)}
	c.listening.Go(func() {
		for m, err := range chromedp.Console(target) {
			if err != nil {
				return
			}
			b.complain("console: " + m.String())
		}
	})
	c.listening.Go(func() {
		for e, err := range chromedp.Events(target, network.RequestWillBeSent) {
			if err != nil {
				return
			}
			if url := e.Request.URL; !strings.HasPrefix(url, ts.Getenv("PAGE")+"/") &&
				!strings.HasPrefix(url, "data:") &&
				url != "about:blank" {
				b.complain("request to another host: " + url)
			}
		}
	})
	return c
}

// within returns the context of the tab with the deadline of ctx.
func (c *chromiumTab) within(ctx context.Context) context.Context {
	if deadline, has := ctx.Deadline(); has {
		limited, cancel := context.WithDeadline(c.target, deadline)
		context.AfterFunc(ctx, cancel)
		return limited
	}
	return c.target
}

func (c *chromiumTab) close(*testscript.TestScript) {
	c.cancel()
	c.listening.Wait()
}

func (c *chromiumTab) tellsAtOnce() bool { return true }

func (c *chromiumTab) open(ctx context.Context, url string) error {
	return chromedp.Do(c.within(ctx), chromedp.Navigate(url))
}

func (c *chromiumTab) evaluate(ctx context.Context, expression string) (any, error) {
	return chromedp.Run(c.within(ctx), chromedp.Evaluate[any](expression, chromedp.EvalAwaitPromise))
}

// use repeats an action on an element until the element can be used.
func (c *chromiumTab) use(ctx context.Context, action chromedp.Action[chromedp.Void]) error {
	return untilUsable(ctx, func() error { return chromedp.Do(c.within(ctx), action) })
}

func (c *chromiumTab) click(ctx context.Context, selector string) error {
	return c.use(ctx, chromedp.Click(chromedp.CSS(selector)))
}

func (c *chromiumTab) fill(ctx context.Context, selector, text string) error {
	return c.use(ctx, chromedp.SendKeys(chromedp.CSS(selector), text))
}

func (c *chromiumTab) press(ctx context.Context, key string) error {
	named := map[string]string{
		"Enter":     kb.Enter,
		"Escape":    kb.Escape,
		"Tab":       kb.Tab,
		"ArrowDown": kb.ArrowDown,
	}
	action := pressKeys(key)
	if held, is := strings.CutPrefix(key, "Control+"); is {
		action = chromedp.KeyEvent(held, chromedp.KeyModifiers(chromedp.ModifierCtrl))
	} else if named[key] != "" {
		action = chromedp.KeyEvent(named[key])
	}
	return chromedp.Do(c.within(ctx), action)
}

// pressKeys presses keys as a keyboard does: a page that handles a key keeps it out of a
// field.
func pressKeys(text string) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, _ *chromedp.Target) (chromedp.Void, error) {
		for _, r := range text {
			for _, kind := range []input.DispatchKeyEventType{
				input.DispatchKeyEventTypeKeyDown,
				input.DispatchKeyEventTypeKeyUp,
			} {
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

func (c *chromiumTab) allowScripts(ctx context.Context, allowed bool) error {
	_, err := chromedp.Call(
		c.within(ctx),
		emulation.SetScriptExecutionDisabled,
		emulation.SetScriptExecutionDisabledParams{Value: !allowed},
	)
	return err
}

func (c *chromiumTab) setSize(ctx context.Context, width, height int64) error {
	_, err := chromedp.Call(c.within(ctx), emulation.SetDeviceMetricsOverride,
		emulation.SetDeviceMetricsOverrideParams{
			Width:             width,
			Height:            height,
			DeviceScaleFactor: 1,
			Mobile:            width < 500,
		})
	return err
}

func (c *chromiumTab) setTheme(ctx context.Context, theme string) error {
	_, err := chromedp.Call(c.within(ctx), emulation.SetEmulatedMedia,
		emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{
			Name:  "prefers-color-scheme",
			Value: theme,
		}}})
	return err
}

// onLoad evaluates a script in each page before its own.
func (c *chromiumTab) onLoad(ctx context.Context, source string) error {
	_, err := chromedp.Call(
		c.within(ctx),
		page.AddScriptToEvaluateOnNewDocument,
		page.AddScriptToEvaluateOnNewDocumentParams{Source: source},
	)
	return err
}

// picturesCmd writes pictures of pages of the server: docs/screens/web-NAME.webp of the first
// one, light, dark and on a phone, docs/screens/web-NAME-issue.webp of a second one, and
// others with the suffix that is before their address. It does so only with UPDATE_PICTURES=1:
// pictures NAME [PATH [PATH]] [SUFFIX=PATH]...
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
	ctx, cancel := context.WithTimeout(context.Background(), test.Patience())
	defer cancel()
	c := b.tab.(*chromiumTab)
	// The clock of scripts is stopped where that of the program is.
	ts.Check(c.onLoad(ctx, fmt.Sprintf("Date.now = () => Date.parse(%q)", string(now))))
	// The home directory is that of the screens of the terminal.
	ts.Check(c.onLoad(ctx, fmt.Sprintf(`new MutationObserver(() => {
		const all = document.createTreeWalker(document, NodeFilter.SHOW_TEXT)
		while (all.nextNode()) {
			const node = all.currentNode
			if (node.data.includes(%[1]q)) node.data = node.data.replaceAll(%[1]q, %[2]q)
		}
	}).observe(document, {childList: true, subtree: true, characterData: true})`, ts.Getenv("HOME"), screenHome)))
	ts.Check(c.open(ctx, ts.Getenv("PAGE")+ts.Getenv("LINK")))
	type picture struct {
		address, suffix, theme string
		width, height          int64
	}
	var list []picture
	for n, address := range args[1:] {
		suffix, of, named := strings.Cut(address, "=")
		switch {
		case named:
			list = append(list, picture{of, "-" + suffix, "light", 1280, 1000})
		case n == 0:
			list = append(
				list,
				picture{address, "", "light", 1280, 800},
				picture{address, "-dark", "dark", 1280, 800},
				picture{address, "-phone", "light", 390, 844},
			)
		default:
			list = append(list, picture{address, "-issue", "light", 1280, 1000})
		}
	}
	for _, p := range list {
		ts.Check(errors.Join(c.setTheme(ctx, p.theme), c.setSize(ctx, p.width, p.height)))
		ts.Check(c.open(ctx, ts.Getenv("PAGE")+p.address))
		quality := int64(85)
		picture, err := chromedp.Call(c.within(ctx), page.CaptureScreenshot, page.CaptureScreenshotParams{
			Format:  page.CaptureScreenshotFormatWebp,
			Quality: &quality,
		})
		ts.Check(err)
		ts.Check(
			os.WriteFile(
				filepath.Join(moduleRoot, "docs", "screens", "web-"+args[0]+p.suffix+".webp"),
				picture.Data,
				0o644,
			),
		)
	}
}
