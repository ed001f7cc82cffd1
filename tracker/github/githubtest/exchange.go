package githubtest

import (
	"encoding/json"
	"io"
	"net/http"
	"sync"
)

// CheckFunc returns what is wrong with a request, or with the reply to it, by GitHub's description. params are the values of the parts of
// path in braces.
type CheckFunc = func(
	r *http.Request, body []byte, path string, params map[string]string, reply func() (int, http.Header, []byte),
) (mistake string)

// Exchange is a request to GitHub and the reply to it, as the program in openapi/validate reads it.
type Exchange struct {
	Method, URL, Path string
	Params            map[string]string // the parts of Path in braces
	Header            http.Header
	Body              []byte
	Status            int
	ReplyHeader       http.Header
	Reply             []byte
}

// CheckBy returns a function that has exchanges checked by a validator, which reads them from in and writes what is wrong with each to out.
func CheckBy(in io.Writer, out io.Reader) CheckFunc {
	var mu sync.Mutex
	send, receive := json.NewEncoder(in), json.NewDecoder(out)
	return func(
		r *http.Request, body []byte, path string, params map[string]string, reply func() (int, http.Header, []byte),
	) (mistake string) {
		e := Exchange{Method: r.Method, URL: r.URL.String(), Path: path, Params: params, Header: r.Header, Body: body}
		e.Status, e.ReplyHeader, e.Reply = reply()
		mu.Lock()
		defer mu.Unlock()
		err := send.Encode(e)
		if err == nil {
			err = receive.Decode(&mistake)
		}
		if err != nil {
			return "the validator: " + err.Error()
		}
		return mistake
	}
}
