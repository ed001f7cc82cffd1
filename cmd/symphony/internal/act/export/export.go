// Package export sends finished runs to OpenTelemetry, as traces in the JSON of its protocol
// OTLP.
package export

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/wiring"
	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/agent"
	"github.com/symphony-cron/symphony/state"
)

// Options choose the runs to export, how much of them, and where to.
type Options struct {
	To      string    // a file, "-" for Out, or the URL of a collector
	Out     io.Writer // the standard output
	Since   time.Time // runs that ended at this time or later
	Content bool      // also prompts, messages, commands and their output
}

// Result counts the exported runs and spans.
type Result struct {
	Runs, Spans int
	To          string // the file, or the host of the collector
}

// Runs exports runs. Repeated exports of a run use the same ids.
func Runs(ctx context.Context, p *wiring.Project, o Options) (r Result, err error) {
	db, err := wiring.OpenForReading(ctx, p)
	if err != nil {
		return r, err
	}
	defer db.Close()
	t := trace{project: p.Name(), content: o.Content, redactor: agent.NewRedactor(nil)}
	if cfg, invalid := p.ConfigWithoutKey(); invalid == nil {
		t.prices = cfg.Agent.Prices
		t.redactor.Add(wiring.Secrets(p, cfg))
	}
	ids, err := db.Runs.EndedIDs(ctx, o.Since)
	if err != nil {
		return r, err
	}
	out := target{name: o.To, redactor: t.redactor, now: p.Env.Now}
	if err := out.open(p, o.Out); err != nil {
		return r, err
	}
	r.To = out.name
	most := 500 // spans of a message, because a collector reads lines of a file up to 1 MiB
	if o.Content {
		most = 8 // of up to 100 kB each
	}
	for _, id := range ids {
		run, err := db.Runs.Find(ctx, id)
		if errors.Is(err, state.ErrNotFound) { // it was pruned meanwhile
			continue
		}
		if err != nil {
			return r, errors.Join(err, out.close())
		}
		one := t
		one.run = run
		if err := one.export(ctx, p.StateDir, &out, most); err != nil {
			return r, errors.Join(err, out.close())
		}
		r.Runs++
		r.Spans += len(one.spans)
	}
	if err := out.close(); err != nil {
		return r, err
	}
	if out.rejected > 0 {
		return r, failed(
			out.name+" has rejected "+text.Plural(out.rejected, "span")+": "+out.reason,
			"see the log of the collector",
		)
	}
	return r, nil
}

// export reads the spans of the run and sends them, at most so many in a message.
func (t *trace) export(ctx context.Context, stateDir string, out *target, most int) error {
	if err := t.read(stateDir); err != nil {
		return err
	}
	for spans := range slices.Chunk(t.spans, most) {
		if err := out.send(ctx, spans); err != nil {
			return err
		}
	}
	return nil
}

// target takes the spans.
type target struct {
	name     string
	file     io.Writer // nil: they are posted to url
	close    func() error
	url      *url.URL
	header   http.Header
	redactor *agent.Redactor // also of the values of headers
	rejected int             // spans that the collector did not take
	reason   string
	now      func() time.Time
}

// address finds a collector's address that lacks http://.
var address = text.Pattern(`^[\w.-]+:\d+(/.*)?$`)

func (t *target) open(p *wiring.Project, out io.Writer) (err error) {
	t.close = func() error { return nil }
	switch {
	case strings.HasPrefix(t.name, "http://") || strings.HasPrefix(t.name, "https://"):
		return t.openURL(p)
	case t.name == "-":
		t.file = out
		return nil
	case strings.Contains(t.name, "://"), address().MatchString(t.name):
		return exit.Usage(
			"export: --otlp needs a URL that begins with http:// or https://, or a file (./NAME)",
		)
	}
	file, err := os.OpenFile(p.Env.Absolute(t.name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return failed(err.Error(), "name a file that this account can write")
	}
	t.file = file
	t.close = file.Close
	return nil
}

// openURL prepares to send spans to a collector. Words of headers that may be secret are
// redacted in errors.
func (t *target) openURL(p *wiring.Project) error {
	list, _ := p.Lookup(workflow.OTLPHeadersVar)
	headers, areValid := parseHeaders(list)
	collector, err := url.Parse(t.name)
	if err != nil || collector.Host == "" || collector.User != nil || !areValid {
		return exit.Usage(
			"export: --otlp needs the URL of a collector, such as http://127.0.0.1:4318, and %s pairs "+
				"NAME=VALUE,NAME=VALUE",
			workflow.OTLPHeadersVar,
		)
	}
	if !strings.HasSuffix(collector.Path, "/v1/traces") {
		collector = collector.JoinPath("v1/traces")
	}
	t.url = collector
	t.name = collector.Host
	t.header = http.Header{"Content-Type": {"application/json"}}
	isHarmless := func(word string) bool { return !agent.SecretValue(word) }
	for name, value := range headers {
		t.header.Set(strings.TrimSpace(name), value[0])
		t.redactor.Add(slices.DeleteFunc(strings.Fields(value[0]), isHarmless))
	}
	return nil
}

// parseHeaders reads headers as NAME=VALUE,NAME=VALUE, where values may be escaped as in a
// query. A header without a value is not valid: perhaps it is a token without its name.
func parseHeaders(list string) (headers url.Values, areValid bool) {
	query := strings.NewReplacer(",", "&", "&", "%26", "+", "%2B", ";", "%3B").Replace(list)
	headers, err := url.ParseQuery(query)
	if err != nil || strings.Contains(headers.Encode()+"&", "=&") {
		return nil, false
	}
	return headers, true
}

func (t *target) send(ctx context.Context, spans []*span) error {
	about := span{}
	new(trace).set(&about, "service.name", "symphony", "service.version", wiring.Version())
	message := text.JSON(object{"resourceSpans": []any{object{
		"resource":  object{"attributes": about.Attributes},
		"schemaUrl": schema,
		"scopeSpans": []any{object{
			"scope":     object{"name": "symphony"},
			"schemaUrl": schema,
			"spans":     spans,
		}},
	}}})
	if t.file == nil {
		return t.post(ctx, message)
	}
	if _, err := t.file.Write(append(message, '\n')); err != nil {
		return failed(
			err.Error(),
			"free space there, remove the last line if it is incomplete, and export again",
		)
	}
	return nil
}

// client follows no redirect, which would take the headers to another address.
var client = http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// post sends a message to the collector. Its errors contain neither the URL nor the headers.
func (t *target) post(ctx context.Context, message []byte) error {
	answer, err := transport.Ask(ctx, &client, http.MethodPost, t.url.String(), t.header, message)
	status := fmt.Sprintf("HTTP %d %s", answer.Status, http.StatusText(answer.Status))
	said := func(words string) string { return text.Short(text.OneLine(t.redactor.Text(words)), 200) }
	switch {
	case err != nil:
	case slices.Contains([]int{429, 502, 503, 504}, answer.Status):
		// OTLP lets clients repeat these requests
		return failed(
			t.name+": "+status+": it is overloaded: "+said(string(answer.Body)),
			"export again after "+
				transport.LimitEnd(answer.Header, t.now().UTC(), time.Time{}).Format(time.RFC3339),
		)
	case answer.Status != http.StatusOK, strings.HasPrefix(answer.Header.Get("Content-Type"), "text/html"):
		// of a proxy or a login page
		err = errors.New(status + " " + string(answer.Body))
	}
	if err != nil {
		return failed(
			t.name+": "+said(err.Error()),
			"compare --otlp with the collector's address for OTLP over HTTP, usually port 4318, and "+
				workflow.OTLPHeadersVar+" with what it wants; then export again",
		)
	}
	var result struct {
		PartialSuccess struct {
			RejectedSpans json.Number // or a text
			ErrorMessage  string
		}
	}
	_ = json.Unmarshal(answer.Body, &result) // an empty answer is good, too
	if n, _ := result.PartialSuccess.RejectedSpans.Int64(); n > 0 {
		t.rejected = t.rejected + int(n)
		t.reason = cmp.Or(said(result.PartialSuccess.ErrorMessage), "without a reason")
	}
	return nil
}

func failed(message, hint string) error { return reconcile.NewError("export_failed", message, hint) }
