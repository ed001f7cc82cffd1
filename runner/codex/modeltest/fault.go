package modeltest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// fault is how a response goes wrong: the first word after fail.
type fault struct {
	info  string        // an HTTP status, usage_limit_reached, cut, or the code of a response.failed
	tries int           // only the first so many requests for this response; 0: all
	reset time.Duration // when a usage limit ends
}

// limitLasts is how far off the end of a usage limit is where the script does not say.
const limitLasts = time.Hour

// parseFault reads INFO, INFO=DURATION, and either with /TRIES behind it.
func parseFault(word string) (f fault, err error) {
	f.reset = limitLasts
	word, tries, counted := strings.Cut(word, "/")
	if counted {
		if f.tries, err = strconv.Atoi(tries); err != nil || f.tries < 1 {
			return f, fmt.Errorf("not a number of tries: %q", tries)
		}
	}
	info, reset, timed := strings.Cut(word, "=")
	f.info = info
	if timed {
		if f.reset, err = time.ParseDuration(reset); err != nil {
			return f, fmt.Errorf("not a duration: %q", reset)
		}
	}
	return f, nil
}

// fail ends the response with an error: by HTTP, unless its stream has begun
// or the name is a code of the API's own. over is false where the fault is past.
func (a *answer) fail(word, text string) (over bool) {
	f, err := parseFault(word)
	if err != nil {
		refuse(a.w, http.StatusBadRequest, err.Error())
		return true
	}
	if f.tries > 0 && a.try > f.tries {
		return false
	}
	status, err := strconv.Atoi(f.info)
	switch {
	case f.info == "cut":
		a.cut()
	case f.info == "usage_limit_reached" && a.id == "":
		a.usageLimit(text, f.reset)
	case err != nil || a.id != "":
		a.failed(f.info, text)
	default:
		refuse(a.w, status, text)
	}
	return true
}

// failed ends the response by an error of the API's own.
func (a *answer) failed(code, text string) {
	a.begin()
	r := a.response("failed")
	r["error"] = object{"code": code, "message": text}
	a.event("response.failed", object{"response": r})
}

// cut breaks the connection in mid-stream; nothing is logged.
func (a *answer) cut() {
	a.begin()
	panic(http.ErrAbortHandler)
}

func (a *answer) usageLimit(text string, lasts time.Duration) {
	resets := time.Now().Add(lasts).Unix()
	h := a.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("x-codex-primary-used-percent", "100")
	h.Set("x-codex-primary-window-minutes", "300")
	h.Set("x-codex-primary-reset-at", strconv.FormatInt(resets, 10))
	a.w.WriteHeader(http.StatusTooManyRequests)
	// A client that is gone can't be told.
	_ = json.NewEncoder(a.w).Encode(object{"error": object{
		"type": "usage_limit_reached", "message": text, "plan_type": "pro", "resets_at": resets, "resets_in_seconds": int(lasts.Seconds()),
	}})
}
