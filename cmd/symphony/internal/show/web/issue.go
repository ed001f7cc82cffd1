package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/logs"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/web/page"
	"github.com/symphony-cron/symphony/reconcile"
)

// issueLog returns the handler that answers with the log of an issue; ?run= names a run other than the newest. The rotation of logs bounds
// its size.
func (s *Server) issueLog(o logs.Options, kind string) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		p, err := s.target(r, r.PathValue("identifier"))
		if err != nil {
			return err
		}
		text, o := textAnswer{w: w, kind: kind}, o
		o.Run = r.URL.Query().Get("run")
		err = logs.Print(r.Context(), &term.Env{Env: *p.Env, Stdout: &text}, p, r.PathValue("identifier"), o)
		if err != nil && !text.written {
			return err
		}
		_, _ = text.Write(nil) // a log may be empty
		return nil
	}
}

// textAnswer gives an answer its type with the first write, so that an error before it still has its status.
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

// diffJSON is the diff of the workspace of an issue.
type diffJSON struct {
	Identifier string `json:"issue_identifier"`
	Diff       string `json:"diff"`
	Cut        bool   `json:"cut"` // it is only the beginning
}

// issueDiff answers GET /issues/{project}/{identifier}/diff with a page, and GET /api/v1/{identifier}/diff with JSON.
func (s *Server) issueDiff(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	select {
	case s.diffs <- struct{}{}:
		defer func() { <-s.diffs }()
	case <-ctx.Done():
		return reconcile.NewError("busy", fmt.Sprintf("%d other diffs are being made", maxAtOnce), "try again")
	}
	p, err := s.target(r, r.PathValue("identifier"))
	if err != nil {
		return err
	}
	var text limitedText
	identifier, err := detail.WriteDiff(ctx, p, r.PathValue("identifier"), &text)
	switch {
	case err != nil && text.full: // git has ended because the text took no more
		identifier = r.PathValue("identifier")
	case errors.Is(err, context.DeadlineExceeded):
		return snapshotError(err)
	case err != nil:
		return err
	}
	name := r.PathValue("project")
	if name == "" {
		return answer(w, diffJSON{identifier, text.String(), text.full})
	}
	diff := page.Diff{Project: name, Name: identifier, Text: text.String(), Cut: text.full, MayAct: s.access.mayAct(r)}
	s.write(w, r, http.StatusOK, diff.Page())
	return nil
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
