package lineartest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
)

// control adds the API with which another process steers the workspace. JSON in, JSON out; errors are HTTP 400
// with {"error": "…"}. It needs no key, so requests that a browser sends for some page are refused.
//
//	GET  /control/issues                   all issues
//	GET  /control/issue?identifier=ABC-1   one issue
//	POST /control/issue    Issue           create: the issue
//	POST /control/edit     Issue           change the fields that are given, of the issue identifier
//	POST /control/move     {identifier, state}
//	POST /control/comment  {identifier, author, body}: the comment
//	POST /control/remove   {identifier}
//	GET  /control/history?identifier=ABC-1
//	GET  /control/log                      the requests; POST /control/log/clear forgets them
//	POST /control/fail     Failure         POST /control/fail/clear ends all failures
//	POST /control/limits   {requests, complexity}: what remains of the allowance
//	POST /control/seed     Seed            replace the workspace
func (s *Server) control(mux *http.ServeMux) {
	get := func(path string, answer func(r *http.Request) (any, error)) {
		mux.HandleFunc("GET /control/"+path, guarded(answer))
	}
	post := func(path string, answer func(r *http.Request) (any, error)) {
		mux.HandleFunc("POST /control/"+path, guarded(answer))
	}
	get("issues", func(*http.Request) (any, error) { return s.Issues(), nil })
	get("issue", func(r *http.Request) (any, error) { return s.Issue(r.URL.Query().Get("identifier")) })
	get("history", func(r *http.Request) (any, error) { return s.History(r.URL.Query().Get("identifier")) })
	get("log", func(*http.Request) (any, error) { return s.Log(), nil })
	post("log/clear", func(*http.Request) (any, error) { s.ClearLog(); return struct{}{}, nil })
	post("issue", s.controlCreate)
	post("edit", s.controlEdit)
	post("move", s.controlMove)
	post("comment", s.controlComment)
	post("remove", s.controlRemove)
	post("fail", s.controlFail)
	post("fail/clear", func(*http.Request) (any, error) { s.ClearFailures(); return struct{}{}, nil })
	post("limits", s.controlLimits)
	post("seed", s.controlSeed)
}

func guarded(answer func(r *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		if r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" {
			w.WriteHeader(http.StatusForbidden)
			writeJSON(w, map[string]string{"error": "not for browsers"})
			return
		}
		out, err := answer(r)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			out = map[string]string{"error": err.Error()}
		}
		writeJSON(w, out)
	}
}

func writeJSON(w io.Writer, out any) {
	// All that is written here encodes, and a client that is gone is no fault of the server.
	_ = json.NewEncoder(w).Encode(out)
}

// decode reads the body into v; keys that v does not have are refused.
func decode(r *http.Request, v any) error {
	d := json.NewDecoder(io.LimitReader(r.Body, maxRequest))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

func (s *Server) controlCreate(r *http.Request) (any, error) {
	var i Issue
	if err := decode(r, &i); err != nil {
		return nil, err
	}
	return s.AddIssue(i)
}

func (s *Server) controlEdit(r *http.Request) (any, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
	if err != nil {
		return nil, err
	}
	var given Issue
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&given); err != nil {
		return nil, err
	}
	if given.Identifier == "" {
		return nil, errors.New("identifier is missing")
	}
	// Decoding onto what the issue is leaves the fields that are not given as they are.
	var second error
	if err := s.Edit(given.Identifier, func(i *Issue) { second = json.Unmarshal(body, i) }); err != nil || second != nil {
		return nil, errors.Join(err, second)
	}
	return s.Issue(given.Identifier)
}

func (s *Server) controlMove(r *http.Request) (any, error) {
	var in struct{ Identifier, State string }
	if err := decode(r, &in); err != nil {
		return nil, err
	}
	if err := s.Move(in.Identifier, in.State); err != nil {
		return nil, err
	}
	return s.Issue(in.Identifier)
}

func (s *Server) controlComment(r *http.Request) (any, error) {
	var in struct{ Identifier, Author, Body string }
	if err := decode(r, &in); err != nil {
		return nil, err
	}
	return s.Comment(in.Identifier, in.Author, in.Body)
}

func (s *Server) controlRemove(r *http.Request) (any, error) {
	var in struct{ Identifier string }
	if err := decode(r, &in); err != nil {
		return nil, err
	}
	return struct{}{}, s.Remove(in.Identifier)
}

func (s *Server) controlFail(r *http.Request) (any, error) {
	var f Failure
	if err := decode(r, &f); err != nil {
		return nil, err
	}
	return struct{}{}, s.Fail(f)
}

func (s *Server) controlLimits(r *http.Request) (any, error) {
	var in struct{ Requests, Complexity *int }
	if err := decode(r, &in); err != nil {
		return nil, err
	}
	if in.Requests == nil || in.Complexity == nil {
		return nil, errors.New("requests and complexity are needed")
	}
	s.SetRemaining(*in.Requests, *in.Complexity)
	return struct{}{}, nil
}

func (s *Server) controlSeed(r *http.Request) (any, error) {
	var seed Seed
	if err := decode(r, &seed); err != nil {
		return nil, err
	}
	if err := s.Load(seed); err != nil {
		return nil, err
	}
	return s.Issues(), nil
}
