// Package script reads what a prompt tells a scripted agent or the model of a test to do.
//
// # Scripts
//
// A script is a part of the prompt between a line "```agent" and a line "```":
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
// Each line is a directive; blank lines and lines that begin with # are skipped. A header
// begins a section: "attempt N:", "turn N:" or "attempt N turn M:". A + after a number means
// "or more". A turn runs the first section whose header matches, or else the lines before the
// first header. Attempts count from 0; the prompt names the attempt in a line "Attempt: N".
// Turns count from 1 within a process, unless the prompt is continuation guidance that names
// the turn ("continuation turn #2 of 3").
//
// A prompt without a script runs the last script of its thread again, also after a resume; a
// thread without any script says "done". An invalid script fails the turn with a message that
// names the line.
//
// Work:
//
//	sh COMMAND            run it with bash -lc in the cwd; its item reports output and exit code
//	background COMMAND    start it and leave it running; its item does not end
//	say TEXT              an agent message, word by word
//	think TEXT            a reasoning item
//	patch FILE TEXT       write TEXT to FILE; a fileChange item
//	tool NAME JSON        call a dynamic tool of the client and wait for the answer
//	tokens IN OUT         report a model call of that size (without any: 1000 50 per turn)
//	ratelimits JSON       account/rateLimits/updated with that object
//	sleep DURATION        silence
//	took DURATION         the duration in the items of the next commands and tool calls
//	stream N INTERVAL     N deltas of a message, an interval apart
//	subagent TEXT         another thread runs a turn and says TEXT
//
// Requests to the client, under every approval policy; the answers have the same effect as
// with a real agent:
//
//	ask-command COMMAND   approval of a command, which runs if approved
//	ask-file FILE         approval of a file change
//	ask-permissions       more permissions
//	ask-user QUESTION     a question to the operator
//	request METHOD JSON   any request to the client; threadId and turnId are added
//
// Failures:
//
//	fail INFO MESSAGE     the turn fails; INFO is the kind of the error, a word or KEY=STATUS
//	cancel                the turn ends as interrupted
//	crash                 exit 1 at once; commands in the background go on
//	hang                  silence until interrupted
//	heed                  silence until the turn gets more input, then a message with that
//	silent                the same here; package modeltest sends no headers for hang, and only
//	                      headers for silent
//	deaf                  ignore EOF and SIGTERM from now on, as do commands started later
//	garbage TEXT          a line that is not a message
//	long BYTES            an item whose line is that long
//	steal-turn            after this turn the agent starts another by itself (only a model
//	                      can cause that)
//	late-response         turn/start is answered after the turn's end
package script

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Step is a directive. Only the fields of its verb are set.
type Step struct {
	Verb string
	Text string
	Name string // tool, file, code, method: the first word after the verb
	JSON json.RawMessage
	N, M int // counts: tokens N M, stream N, long N
	Wait time.Duration
	Line int // number in the script, from 1
}

// verbs maps the directives to their arguments; a ? marks an optional argument.
var verbs = map[string]string{
	"sh":              "text",
	"background":      "text",
	"say":             "text",
	"think":           "text",
	"subagent":        "text",
	"garbage":         "text",
	"ask-command":     "text",
	"ask-file":        "text",
	"ask-user":        "text",
	"ask-permissions": "",
	"patch":           "name text?",
	"fail":            "name text?",
	"tool":            "name json?",
	"request":         "name json?",
	"ratelimits":      "json",
	"tokens":          "n m",
	"long":            "n",
	"sleep":           "wait",
	"took":            "wait",
	"stream":          "n wait",
	"crash":           "",
	"hang":            "",
	"heed":            "",
	"silent":          "",
	"deaf":            "",
	"cancel":          "",
	"steal-turn":      "",
	"late-response":   "",
}

// section contains the steps under a header.
type section struct {
	header []string // a match of the regular expression
	steps  []Step
}

// Steps returns the steps for the last of a thread's prompts. turn is its number, unless the
// prompt states it.
func Steps(prompts []string, turn int) (steps []Step, err error) {
	var script []section
	attempt := 0
	for _, prompt := range prompts {
		var sections []section
		sections, err = parse(prompt) // only an error in the last prompt counts
		if len(sections) > 0 {
			script = sections
			attempt = 0
		}
		attempt = numberIn(prompt, `(?m)^[-*# \t]*Attempt:[ *]*(\d+)`, attempt)
	}
	if err != nil || len(script) == 0 {
		return nil, err
	}
	turn = numberIn(prompts[len(prompts)-1], `continuation turn #(\d+)`, turn)
	for _, s := range script[1:] {
		if matches(s.header[1], s.header[2], attempt) && matches(s.header[3], s.header[4], turn) {
			return s.steps, nil
		}
	}
	return script[0].steps, nil
}

// matches reports whether the number of a header matches n. A header without a number matches
// all.
func matches(number, orMore string, n int) bool {
	wanted, err := strconv.Atoi(number)
	return err != nil || n == wanted || orMore != "" && n > wanted
}

// numberIn returns the number that the prompt names, or fallback.
func numberIn(prompt, pattern string, fallback int) int {
	if m := regexp.MustCompile(pattern).FindStringSubmatch(prompt); m != nil {
		fallback, _ = strconv.Atoi(m[1]) // digits
	}
	return fallback
}

// parse reads the script of a prompt. The first section contains the lines before the first
// header. Without a script there are no sections.
func parse(prompt string) ([]section, error) {
	begin := regexp.MustCompile("(?m)^[ \t]*```agent[ \t]*\n").FindStringIndex(prompt)
	if begin == nil {
		return nil, nil
	}
	body := prompt[begin[1]:]
	end := regexp.MustCompile("(?m)^[ \t]*```[ \t]*$").FindStringIndex(body)
	if end == nil {
		return nil, errors.New("agent script: no closing ```")
	}
	header := regexp.MustCompile(`^(?:attempt (\d+)(\+?) ?)?(?:turn (\d+)(\+?))?:$`)
	sections := []section{{}}
	for i, line := range strings.Split(body[:end[0]], "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if m := header.FindStringSubmatch(line); m != nil {
			sections = append(sections, section{header: m})
			continue
		}
		step, err := parseStep(line)
		if err != nil {
			return nil, fmt.Errorf("agent script, line %d: %w", i+1, err)
		}
		step.Line = i + 1
		last := &sections[len(sections)-1]
		last.steps = append(last.steps, step)
	}
	return sections, nil
}

// parseStep reads a line such as "patch FILE TEXT".
func parseStep(line string) (Step, error) {
	verb, rest, _ := strings.Cut(line, " ")
	fields, known := verbs[verb]
	if !known {
		return Step{}, fmt.Errorf("unknown directive %q", verb)
	}
	step := Step{Verb: verb}
	for field := range strings.FieldsSeq(fields) {
		field, optional := strings.CutSuffix(field, "?")
		word := strings.TrimSpace(rest)
		rest = ""
		if field != "text" && field != "json" { // these two are the rest of the line
			word, rest, _ = strings.Cut(word, " ")
		}
		if word == "" && optional {
			continue
		}
		if err := step.set(field, word); err != nil {
			return Step{}, fmt.Errorf("%s: %w", verb, err)
		}
	}
	if rest != "" {
		return Step{}, fmt.Errorf("%s: unexpected argument %q", verb, rest)
	}
	return step, nil
}

// set stores an argument of the directive. field is its name in verbs.
func (s *Step) set(field, word string) error {
	var err error
	switch field {
	case "text":
		s.Text = word
	case "name":
		s.Name = word
	case "json":
		s.JSON = json.RawMessage(word)
		if !json.Valid(s.JSON) {
			err = errors.New("no JSON")
		}
	case "n":
		s.N, err = strconv.Atoi(word)
	case "m":
		s.M, err = strconv.Atoi(word)
	case "wait":
		s.Wait, err = time.ParseDuration(word)
	}
	if word == "" || err != nil {
		return fmt.Errorf("%q is not a valid %s", word, field)
	}
	return nil
}

// Numbers returns the words of the message that "stream" sends.
func Numbers(n int) []string {
	words := make([]string, n)
	for i := range words {
		words[i] = fmt.Sprintf("%d ", i+1)
	}
	return words
}
