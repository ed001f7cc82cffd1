// Package codextest is a small app-server that does what a script in the
// prompt says, in the wire shapes of codex 0.169. Tests drive sessions and
// workers with it, and the demo command serves it as its agent: nothing in it
// needs a model, a network or a sandbox.
//
// # Scripts
//
// A script stands in the prompt, between a line "```agent" and a line "```":
//
//	```agent
//	think the first attempt fails
//	sh make
//	attempt 1+:
//	sh git commit -qam fixed
//	turn 2:
//	say nothing is left
//	```
//
// Each line is a directive; blank lines and lines that begin with # are skipped.
// A header begins a section: "attempt N:", "turn N:" or "attempt N turn M:". A
// + after a number means "or more". A turn does the first section whose header
// matches, else the lines before any header. Attempts count from 0 and are read
// from a line "Attempt: N" of the prompt. Turns count from 1 within a process,
// or are read from continuation guidance ("continuation turn #2 of 3").
//
// A prompt without a script repeats the last script of its thread, also after
// a resume; a thread without any script says "done". An invalid script fails
// the turn with a message that names the line.
//
// What an agent does:
//
//	sh COMMAND            run it by bash -lc in the cwd; its item has output and exit code
//	background COMMAND    start it and leave it running; its item does not end
//	say TEXT              an agent message, word by word
//	think TEXT            a reasoning item
//	patch FILE TEXT       write TEXT to FILE; a fileChange item
//	tool NAME JSON        call a dynamic tool of the client and wait for the answer
//	tokens IN OUT         report a model call of that size (without any: 1000 50 per turn)
//	ratelimits JSON       account/rateLimits/updated with that object
//	sleep DURATION        silence
//	stream N INTERVAL     N deltas of a message, an interval apart
//	subagent TEXT         another thread has a turn and says TEXT
//
// What it asks (it obeys the answers as codex does):
//
//	ask-command COMMAND   approval of a command, which runs if granted
//	ask-file FILE         approval of a file change
//	ask-permissions       more permissions
//	ask-user QUESTION     a question to the operator
//	ask-form MESSAGE      an MCP server's form: region (eu or us), sure and n, the last two optional
//	request METHOD JSON   any request to the client; threadId and turnId are added
//	unknown-request       a request with an unknown method
//
// How it fails:
//
//	fail INFO MESSAGE     the turn fails; INFO is codexErrorInfo, a word or KEY=STATUS
//	cancel                the turn ends as interrupted
//	crash                 exit 1 at once; commands in the background stay
//	hang                  silence until interrupted
//	silent                the same; the model of package modeltest hangs before its headers, or is silent after them
//	deaf                  ignore EOF and termination from now on; commands started later inherit that
//	garbage TEXT          a line that is not a message
//	long BYTES            an item whose line is that long
//	steal-turn            after this turn codex starts another by itself (only a real codex with a model of package modeltest)
//	late-response         turn/start is answered after the turn's end
//
// # Decisions
//
// The directives ask-… send their request under every approval policy; codex
// sends none under "never". All other messages follow recordings of a real
// codex, and TestShapes compares their members.
//
// Commands run in their own process sessions (setsid), as with codex, and only
// a graceful exit kills them: a test of clean-up has processes to find.
package codextest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Script is what a prompt asks the agent to do; see the package comment for
// its language.
type Script struct {
	sections []section // the first holds the lines before any header
}

type section struct {
	attempt, turn selector
	steps         []Step
}

// selector is N or N+ of a header; the zero value takes everything.
type selector struct {
	set, up bool
	n       int
}

func (s selector) takes(n int) bool {
	return !s.set || n == s.n || s.up && n > s.n
}

// Step is one directive. Only the fields of its verb are set.
type Step struct {
	Verb string
	Text string // the rest of the line without the other fields
	Name string // tool, file, code, method: the first word after the verb
	JSON json.RawMessage
	N, M int // counts: tokens IN OUT, stream N, long BYTES
	Wait time.Duration
	Line int // in the script, from 1
}

// arguments gives what reads the rest of a verb's line, nil for no verb.
func arguments(verb string) func(*Step, string) error {
	switch verb {
	case "sh", "background", "say", "think", "ask-command", "ask-file", "ask-user", "ask-form", "garbage", "subagent":
		return needText
	case "patch", "fail":
		return nameAndText
	case "tool", "request":
		return nameAndJSON
	case "ratelimits":
		return onlyJSON
	case "tokens":
		return twoCounts
	case "long":
		return oneCount
	case "sleep":
		return wait
	case "stream":
		return countAndWait
	case "crash", "hang", "silent", "deaf", "cancel", "ask-permissions", "unknown-request", "steal-turn", "late-response":
		return nothing
	}
	return nil
}

const fence = "```"

// Parse reads the script of a prompt: the lines between one that is "```agent"
// and one that is "```". found is false where there is none. An error names
// the line and what is wrong with it.
func Parse(prompt string) (s Script, found bool, err error) {
	_, rest, found := cutLine(prompt, fence+"agent")
	if !found {
		return Script{}, false, nil
	}
	body, _, closed := cutLine(rest, fence)
	if !closed {
		return Script{}, true, fmt.Errorf("agent script: no closing %s", fence)
	}
	s.sections = []section{{}}
	for i, line := range strings.Split(body, "\n") {
		if err := s.add(strings.TrimSpace(line), i+1); err != nil {
			return Script{}, true, fmt.Errorf("agent script, line %d: %w", i+1, err)
		}
	}
	return s, true, nil
}

// cutLine cuts text around the first line that is want.
func cutLine(text, want string) (before, after string, found bool) {
	at := 0
	for at <= len(text) {
		line, _, more := strings.Cut(text[at:], "\n")
		next := at + len(line) + 1
		if strings.TrimSpace(line) == want {
			return text[:at], text[min(next, len(text)):], true
		}
		if !more {
			break
		}
		at = next
	}
	return text, "", false
}

func (s *Script) add(line string, number int) error {
	if line == "" || strings.HasPrefix(line, "#") {
		return nil
	}
	if head, ok := strings.CutSuffix(line, ":"); ok {
		if sec, ok := header(head); ok {
			s.sections = append(s.sections, sec)
			return nil
		}
	}
	verb, rest, _ := strings.Cut(line, " ")
	read := arguments(verb)
	if read == nil {
		return fmt.Errorf("unknown directive %q", verb)
	}
	step := Step{Verb: verb, Line: number}
	if err := read(&step, strings.TrimSpace(rest)); err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	last := &s.sections[len(s.sections)-1]
	last.steps = append(last.steps, step)
	return nil
}

// header reads "attempt N", "turn N", or both, each number perhaps with a +.
func header(text string) (section, bool) {
	words := strings.Fields(text)
	if len(words) != 2 && len(words) != 4 {
		return section{}, false
	}
	var sec section
	for i := 0; i < len(words); i += 2 {
		digits, up := strings.CutSuffix(words[i+1], "+")
		n, err := strconv.Atoi(digits)
		if err != nil || n < 0 {
			return section{}, false
		}
		sel := selector{set: true, up: up, n: n}
		switch {
		case words[i] == "attempt" && !sec.attempt.set:
			sec.attempt = sel
		case words[i] == "turn" && !sec.turn.set:
			sec.turn = sel
		default:
			return section{}, false
		}
	}
	return sec, true
}

// Steps gives the steps for one turn of one attempt: those of the first
// section whose header takes both, else those before any header.
func (s Script) Steps(attempt, turn int) []Step {
	if len(s.sections) == 0 {
		return nil
	}
	for _, sec := range s.sections[1:] {
		if sec.attempt.takes(attempt) && sec.turn.takes(turn) {
			return sec.steps
		}
	}
	return s.sections[0].steps
}

// Attempt reads the line "Attempt: N" of a prompt; found is false where there
// is none or it is empty, which means the first attempt.
func Attempt(prompt string) (n int, found bool) {
	for line := range strings.Lines(prompt) {
		line = strings.TrimLeft(strings.TrimSpace(line), "-*# ")
		value, ok := strings.CutPrefix(line, "Attempt:")
		if !ok {
			continue
		}
		if n, err := strconv.Atoi(strings.Trim(value, " *.")); err == nil && n >= 0 {
			return n, true
		}
	}
	return 0, false
}

// Turn reads the turn's number from continuation guidance ("continuation turn
// #2 of 3"); found is false in any other text.
func Turn(prompt string) (n int, found bool) {
	_, rest, ok := strings.Cut(prompt, "continuation turn #")
	if !ok {
		return 0, false
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(rest)
	}
	n, err := strconv.Atoi(rest[:end])
	return n, err == nil
}

func nothing(_ *Step, rest string) error {
	if rest != "" {
		return fmt.Errorf("takes nothing, not %q", rest)
	}
	return nil
}

func needText(s *Step, rest string) error {
	if rest == "" {
		return fmt.Errorf("needs a text")
	}
	s.Text = rest
	return nil
}

func nameAndText(s *Step, rest string) error {
	name, text, _ := strings.Cut(rest, " ")
	if name == "" {
		return fmt.Errorf("needs a name and a text")
	}
	s.Name, s.Text = name, strings.TrimSpace(text)
	return nil
}

func nameAndJSON(s *Step, rest string) error {
	if err := nameAndText(s, rest); err != nil {
		return err
	}
	text := s.Text
	s.Text = ""
	if text == "" {
		text = "{}"
	}
	return onlyJSON(s, text)
}

func onlyJSON(s *Step, rest string) error {
	if !json.Valid([]byte(rest)) {
		return fmt.Errorf("not JSON: %q", rest)
	}
	s.JSON = json.RawMessage(rest)
	return nil
}

func oneCount(s *Step, rest string) (err error) {
	s.N, err = number(rest)
	return err
}

func twoCounts(s *Step, rest string) (err error) {
	a, b, _ := strings.Cut(rest, " ")
	if s.N, err = number(a); err != nil {
		return err
	}
	s.M, err = number(strings.TrimSpace(b))
	return err
}

func countAndWait(s *Step, rest string) (err error) {
	a, b, _ := strings.Cut(rest, " ")
	if s.N, err = number(a); err != nil {
		return err
	}
	return wait(s, strings.TrimSpace(b))
}

func number(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("not a number: %q", text)
	}
	return n, nil
}

func wait(s *Step, rest string) error {
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 {
		return fmt.Errorf("not a duration such as 300ms: %q", rest)
	}
	s.Wait = d
	return nil
}
