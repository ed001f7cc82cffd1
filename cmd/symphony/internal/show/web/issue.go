package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/eventlog"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/logs"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/web/page"
	"github.com/symphony-cron/symphony/reconcile"
)

// details answers requests about a single issue: its page, its logs and its diff.
type details struct {
	source source
	access *access
	// a value for each diff that is being made, and for each log that is read whole
	large chan struct{}
}

// issuePage draws /issues/{project}/{identifier}.
func (s details) issuePage(r *http.Request) (p page.Page, files []string, err error) {
	i, files, err := s.readIssue(r, page.LogLines)
	if err != nil {
		return p, nil, err
	}
	return i.Page(), files, nil
}

// readIssue reads the issue of the address with so many lines of its log, without the parts
// that the reader may not see.
func (s details) readIssue(r *http.Request, lines int) (i page.Issue, files []string, err error) {
	name := r.PathValue("project")
	v, err := s.source.issue(r.Context(), name, r.PathValue("identifier"), lines)
	if err != nil {
		return i, nil, err
	}
	files = filesOf(v.Project)
	if v.LogDir != nil {
		files = append(files, eventlog.File(*v.LogDir))
	}
	s.access.withhold(r, &v)
	return page.Issue{
		Project: name,
		Issue:   v,
		MayAct:  s.access.mayAct(r),
		Details: s.access.permit(r, needDetails) == nil,
	}, files, nil
}

// issueLog returns the handler that answers with the log of an issue. ?run= names a run other
// than the newest, and ?line= asks for the whole output of a line of the page of the run. The
// rotation of logs bounds its size.
func (s details) issueLog(o logs.Options, kind string) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		text := textAnswer{w: w, kind: kind}
		if id := r.URL.Query().Get("line"); id != "" && !o.Raw {
			_, lines, err := s.readRun(r)
			if err != nil {
				return err
			}
			found, ok := page.Detail(lines, id)
			if !ok {
				return reconcile.NewError(
					"not_found",
					"the log has no such line",
					"load the page again",
				)
			}
			_, _ = text.Write([]byte(found)) // the client is gone
			return nil
		}
		p, err := s.source.target(r, r.PathValue("identifier"))
		if err != nil {
			return err
		}
		options := o
		options.Run = r.URL.Query().Get("run")
		out := &term.Env{Env: *p.Env, Stdout: &text}
		err = logs.Print(r.Context(), out, p, r.PathValue("identifier"), options)
		if err != nil && text.written {
			// The status was sent, and it said that all is well: without the end of the answer
			// the client does not take this for the whole log.
			panic(http.ErrAbortHandler)
		}
		if err != nil {
			return err
		}
		_, _ = text.Write(nil) // a log may be empty
		return nil
	}
}

// textAnswer sets the type of an answer at the first write, so that an error before it keeps
// its status.
type textAnswer struct {
	w       http.ResponseWriter
	kind    string
	written bool
}

// Write implements io.Writer.
func (t *textAnswer) Write(b []byte) (int, error) {
	if !t.written {
		t.w.Header().Set("Content-Type", t.kind)
		t.written = true
	}
	return t.w.Write(b)
}

// The limits of a diff.
const (
	maxDiff   = 2 << 20 // bytes
	maxAtOnce = 2       // how many are made at the same time
)

// largeAnswer waits until fewer than maxAtOnce large answers are being made. The caller calls
// done in the end.
func (s details) largeAnswer(r *http.Request) (ctx context.Context, done func(), err error) {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	select {
	case s.large <- struct{}{}:
		done := func() {
			<-s.large
			cancel()
		}
		return ctx, done, nil
	case <-ctx.Done():
		cancel()
		return nil, nil, reconcile.NewError(
			"busy",
			fmt.Sprintf("%d other diffs or logs are being read", maxAtOnce),
			"try again",
		)
	}
}

// readRun reads the log of a run, which ?run= names unless it is the newest.
func (s details) readRun(r *http.Request) (run reconcile.Run, lines []eventlog.Line, err error) {
	ctx, done, err := s.largeAnswer(r)
	if err != nil {
		return run, nil, err
	}
	defer done()
	p, err := s.source.target(r, r.PathValue("identifier"))
	if err != nil {
		return run, nil, err
	}
	return logs.Read(ctx, p, r.PathValue("identifier"), r.URL.Query().Get("run"))
}

// runPage draws /issues/{project}/{identifier}/run.
func (s details) runPage(r *http.Request) (p page.Page, files []string, err error) {
	run, lines, err := s.readRun(r)
	if err != nil {
		return p, nil, err
	}
	v, files, err := s.readIssue(r, 1)
	if err != nil {
		return p, nil, err
	}
	q := r.URL.Query()
	return page.Run{
		Of:       v,
		RunID:    run.ID,
		Lines:    lines,
		Query:    q.Get("q"),
		Failures: q.Get("only") == "failures",
	}.Page(), files, nil
}

// diffJSON is the diff of the workspace of an issue.
type diffJSON struct {
	Identifier string `json:"issue_identifier"`
	Diff       string `json:"diff"`
	Cut        bool   `json:"cut"` // it is only the beginning
}

// issueDiff answers GET /api/v1/{identifier}/diff.
func (s details) issueDiff(w http.ResponseWriter, r *http.Request) error {
	diff, _, err := s.readDiff(r, "")
	if err != nil {
		return err
	}
	return answer(w, diff)
}

// diffPage draws /issues/{project}/{identifier}/diff. With ?attempts=1..2 it compares two
// attempts.
func (s details) diffPage(r *http.Request) (page.Page, []string, error) {
	attempts := r.URL.Query().Get("attempts")
	d, files, err := s.readDiff(r, attempts)
	if err != nil {
		return page.Page{}, files, err
	}
	diff := page.Diff{
		Project:  r.PathValue("project"),
		Name:     d.Identifier,
		Text:     d.Diff,
		Cut:      d.Cut,
		MayAct:   s.access.mayAct(r),
		Attempts: attempts,
	}
	of, more, err := s.readIssue(r, 1)
	if err == nil { // an agent without an issue has a diff, too
		diff.Of = &of
		files = append(files, more...)
	}
	return diff.Page(), files, nil
}

// readDiff returns the diff of all changes or between two attempts, and the files that change
// with it.
func (s details) readDiff(r *http.Request, attempts string) (diff diffJSON, files []string, err error) {
	ctx, done, err := s.largeAnswer(r)
	if err != nil {
		return diff, nil, err
	}
	defer done()
	p, err := s.source.target(r, r.PathValue("identifier"))
	if err != nil {
		return diff, nil, err
	}
	var text limitedText
	run, err := detail.WriteDiff(ctx, p, r.PathValue("identifier"), attempts, &text)
	files = []string{eventlog.Path(p.StateDir, run.ID)}
	if err != nil && !text.full { // if the text is full, git ended because nothing more was taken
		if errors.Is(err, context.DeadlineExceeded) {
			err = snapshotError(err)
		}
		return diff, files, err
	}
	return diffJSON{
		Identifier: cmp.Or(run.Identifier, r.PathValue("identifier")),
		Diff:       text.String(),
		Cut:        text.full,
	}, files, nil
}

// limitedText takes the first maxDiff bytes.
type limitedText struct {
	strings.Builder
	full bool
}

var errFull = errors.New("the page takes no more")

// Write implements io.Writer.
func (t *limitedText) Write(b []byte) (int, error) {
	if t.Len()+len(b) > maxDiff {
		t.full = true
		return 0, errFull
	}
	return t.Builder.Write(b)
}
