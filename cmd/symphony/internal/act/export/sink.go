package export

import (
	"cmp"
	"context"
	"encoding/json"
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
	"github.com/symphony-cron/symphony/reconcile/workflow"
	"github.com/symphony-cron/symphony/runner/agent"
)

// sink takes the spans.
type sink interface {
	name() string // of the file, or the host of the collector
	send(ctx context.Context, message []byte) error
	// close fails if the sink did not take everything that was sent.
	close() error
}

// address finds a collector's address that lacks http://.
var address = text.Pattern(`^[\w.-]+:\d+(/.*)?$`)

// openSink opens the file, or prepares to send to the collector. Words of headers that may be
// secret are added to the redactor.
func openSink(p *wiring.Project, o Options, redactor *agent.Redactor) (sink, error) {
	switch {
	case strings.HasPrefix(o.To, "http://") || strings.HasPrefix(o.To, "https://"):
		return newCollector(p, o.To, redactor)
	case o.To == "-":
		return file{path: o.To, out: keptOpen{o.Out}}, nil
	case strings.Contains(o.To, "://"), address().MatchString(o.To):
		return nil, exit.Usage(
			"export: --otlp needs a URL that begins with http:// or https://, or a file (./NAME)",
		)
	}
	out, err := os.OpenFile(p.Env.Absolute(o.To), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, failed(err.Error(), "name a file that this account can write")
	}
	return file{path: o.To, out: out}, nil
}

// file takes each message as a line.
type file struct {
	path string
	out  io.WriteCloser
}

func (f file) name() string { return f.path }

func (f file) send(_ context.Context, message []byte) error {
	if _, err := f.out.Write(append(message, '\n')); err != nil {
		return failed(
			err.Error(),
			"free space there, remove the last line if it is incomplete, and export again",
		)
	}
	return nil
}

func (f file) close() error { return f.out.Close() }

// keptOpen is the standard output, which other parts of the program write, too.
type keptOpen struct{ io.Writer }

func (keptOpen) Close() error { return nil }

// collector takes the messages by HTTP.
type collector struct {
	to       *url.URL
	header   http.Header
	redactor *agent.Redactor // also of the values of headers
	now      func() time.Time
	rejected int // spans that the collector did not take
	reason   string
}

// newCollector returns the collector at an address. Words of headers that may be secret are
// redacted in errors.
func newCollector(p *wiring.Project, address string, redactor *agent.Redactor) (*collector, error) {
	list, _ := p.Lookup(workflow.OTLPHeadersVar)
	header, areValid := parseHeaders(list)
	to, err := url.Parse(address)
	if err != nil || to.Host == "" || to.User != nil || !areValid {
		return nil, exit.Usage(
			"export: --otlp needs the URL of a collector, such as http://127.0.0.1:4318, and %s pairs "+
				"NAME=VALUE,NAME=VALUE",
			workflow.OTLPHeadersVar,
		)
	}
	if !strings.HasSuffix(to.Path, "/v1/traces") {
		to = to.JoinPath("v1/traces")
	}
	isHarmless := func(word string) bool { return !agent.SecretValue(word) }
	for name := range header {
		redactor.Add(slices.DeleteFunc(strings.Fields(header.Get(name)), isHarmless))
	}
	header.Set("Content-Type", "application/json")
	return &collector{to: to, header: header, redactor: redactor, now: p.Env.Now}, nil
}

// parseHeaders reads headers as NAME=VALUE,NAME=VALUE, where values may be escaped as in a URL:
// Authorization=Basic%20abc. A header without a value is not valid: perhaps it is a token
// without its name.
func parseHeaders(list string) (header http.Header, areValid bool) {
	header = http.Header{}
	for pair := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, escaped, _ := strings.Cut(pair, "=")
		value, err := url.PathUnescape(escaped)
		name = strings.TrimSpace(name)
		value = strings.TrimSpace(value)
		if err != nil || name == "" || value == "" {
			return nil, false
		}
		header.Set(name, value)
	}
	return header, true
}

func (c *collector) name() string { return c.to.Host }

// client follows no redirect, which would take the headers to another address.
var client = http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// send sends a message to the collector. Its errors contain neither the URL nor the headers.
func (c *collector) send(ctx context.Context, message []byte) error {
	answer, err := transport.Post(ctx, &client, c.to.String(), c.header, message)
	if err != nil {
		return c.refused(err.Error())
	}
	status := fmt.Sprintf("HTTP %d %s", answer.Status, http.StatusText(answer.Status))
	// OTLP lets clients repeat these requests
	if slices.Contains([]int{429, 502, 503, 504}, answer.Status) {
		end := transport.LimitEnd(answer.Header, c.now().UTC(), time.Time{})
		return failed(
			c.name()+": "+status+": it is overloaded: "+c.short(string(answer.Body)),
			"export again after "+end.Format(time.RFC3339),
		)
	}
	isPage := strings.HasPrefix(answer.Header.Get("Content-Type"), "text/html") // of a proxy or a login
	if answer.Status != http.StatusOK || isPage {
		return c.refused(status + " " + string(answer.Body))
	}
	c.noteRejected(answer.Body)
	return nil
}

// noteRejected reads an answer, in which a collector may say that it did not take all spans.
func (c *collector) noteRejected(answer []byte) {
	var result struct {
		PartialSuccess struct {
			RejectedSpans json.Number // or a text
			ErrorMessage  string
		}
	}
	_ = json.Unmarshal(answer, &result) // an empty answer is good, too
	n, _ := result.PartialSuccess.RejectedSpans.Int64()
	if n > 0 {
		c.rejected += int(n)
		c.reason = cmp.Or(c.short(result.PartialSuccess.ErrorMessage), "without a reason")
	}
}

// refused returns the error of a collector that did not take a message.
func (c *collector) refused(why string) error {
	return failed(
		c.name()+": "+c.short(why),
		"compare --otlp with the collector's address for OTLP over HTTP, usually port 4318, and "+
			workflow.OTLPHeadersVar+" with what it wants; then export again",
	)
}

// short returns the beginning of words of the collector, on a line and without secrets.
func (c *collector) short(words string) string {
	return text.Short(text.OneLine(c.redactor.Text(words)), 200)
}

func (c *collector) close() error {
	if c.rejected == 0 {
		return nil
	}
	return failed(
		c.name()+" has rejected "+text.Plural(c.rejected, "span")+": "+c.reason,
		"see the log of the collector",
	)
}
