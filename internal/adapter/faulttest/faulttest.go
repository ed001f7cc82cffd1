// Package faulttest makes the servers of tests fail.
package faulttest

import (
	"io"
	"net/http"
)

// Fault writes the answer to a request that fails. It is false for a request that does not.
type Fault = func(http.ResponseWriter, *http.Request) bool

// Down ends the connection without an answer.
func Down(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }

// Cut ends the connection in the middle of an answer.
func Cut(w http.ResponseWriter, _ *http.Request) bool {
	w.Header().Set("Content-Length", "1000")
	_, _ = io.WriteString(w, `[{"id": 1,`)
	panic(http.ErrAbortHandler)
}

// Answer answers with a status and a body. header has names and values by turns.
func Answer(status int, body string, header ...string) Fault {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
		return true
	}
}

// Garbage answers with a page of another program.
func Garbage() Fault {
	return Answer(http.StatusOK, "<html><title>Sign in</title></html>", "Content-Type", "text/html")
}
