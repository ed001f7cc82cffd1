package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/project"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/logs"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/term"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/web/page"
	"github.com/symphony-cron/symphony/reconcile"
)

// issueLog answers GET /issues/{project}/{identifier}/log with everything that symphony logs -v prints, as text; ?run= names a run
// other than the newest. The rotation of logs bounds its size.
func (s *Server) issueLog(w http.ResponseWriter, r *http.Request) error {
	p, err := s.source.project(r.Context(), r.PathValue("project"))
	if err != nil {
		return err
	}
	return answerLog(w, r, p, logs.Options{Whole: true}, "text/plain; charset=utf-8")
}

// issueEvents answers GET /api/v1/{identifier}/log with what symphony logs --raw prints: a JSON object on each line.
func (s *Server) issueEvents(w http.ResponseWriter, r *http.Request) error {
	p, err := s.target(r, r.PathValue("identifier"))
	if err != nil {
		return err
	}
	return answerLog(w, r, p, logs.Options{Raw: true}, "application/jsonl")
}

func answerLog(w http.ResponseWriter, r *http.Request, p *project.Project, o logs.Options, kind string) error {
	text := textAnswer{w: w, kind: kind}
	o.Run = r.URL.Query().Get("run")
	err := logs.Print(r.Context(), &term.Env{Env: *p.Env, Stdout: &text}, p, r.PathValue("identifier"), o)
	if err != nil && !text.written {
		return err
	}
	_, _ = text.Write(nil) // a log may be empty
	return nil
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

// issueDiff answers GET /issues/{project}/{identifier}/diff.
func (s *Server) issueDiff(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("project")
	p, err := s.source.project(r.Context(), name)
	if err != nil {
		return err
	}
	d, err := s.readDiff(r, p)
	if err != nil {
		return err
	}
	shown := page.Diff{Project: name, Name: d.Identifier, Text: d.Diff, Cut: d.Cut, MayAct: s.access.mayAct(r)}
	s.write(w, r, http.StatusOK, shown.Page())
	return nil
}

// diffJSON is the answer of GET /api/v1/{identifier}/diff.
type diffJSON struct {
	Identifier string `json:"issue_identifier"`
	Diff       string `json:"diff"`
	Cut        bool   `json:"cut"` // it is only the beginning
}

// diff answers GET /api/v1/{identifier}/diff.
func (s *Server) diff(w http.ResponseWriter, r *http.Request) error {
	p, err := s.target(r, r.PathValue("identifier"))
	var d diffJSON
	if err == nil {
		d, err = s.readDiff(r, p)
	}
	if err != nil {
		return err
	}
	return answer(w, d)
}

// readDiff reads at most maxDiff bytes of the diff of an issue.
func (s *Server) readDiff(r *http.Request, p *project.Project) (diffJSON, error) {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	select {
	case s.diffs <- struct{}{}:
		defer func() { <-s.diffs }()
	case <-ctx.Done():
		return diffJSON{}, reconcile.NewError("busy", fmt.Sprintf("%d other diffs are being made", maxAtOnce), "try again")
	}
	var text limitedText
	identifier, err := detail.WriteDiff(ctx, p, r.PathValue("identifier"), &text)
	switch {
	case err != nil && text.full: // git has ended because the text took no more
		identifier = r.PathValue("identifier")
	case errors.Is(err, context.DeadlineExceeded):
		return diffJSON{}, snapshotError(err)
	case err != nil:
		return diffJSON{}, err
	}
	return diffJSON{identifier, text.String(), text.full}, nil
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
