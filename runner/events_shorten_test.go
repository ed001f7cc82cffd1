package runner

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/symphony-cron/symphony/runner/codex"
)

// What is cut keeps what tells what happened, and says what is missing.
func TestShorten(t *testing.T) {
	const limit = 1 << 10
	long := strings.Repeat("b", 40) + strings.Repeat("x", 5000) + strings.Repeat("e", 40)
	for name, tc := range map[string]struct {
		in        string
		has, lack []string
	}{
		"a command's output": {
			in: `{"method":"item/completed","params":{"item":{"type":"commandExecution","command":"make","aggregatedOutput":"` + long +
				`","exitCode":2,"durationMs":1234}}}`,
			has: []string{`"command":"make"`, `"aggregatedOutput":"bbbb`, `bytes cut]…`, `eeee","exitCode":2,"durationMs":1234}}}`},
		},
		"many strings": {
			in:  `{"list":["` + strings.Repeat(strings.Repeat("y", 400)+`","`, 20) + `z"],"last":1}`,
			has: []string{`"list":["yyy`, `bytes cut]…`, `"last":1}`},
		},
		"a long list": {
			in:  `{"list":[` + strings.Repeat(`{"a":[1,2,{}]},`, 500) + `0], "last" : true}`,
			has: []string{`"list":[{"a":[1,2,{}]},`, `"… 437 more"]`, `"last":true}`},
		},
		"a large object": {
			in:  `{"o":{` + strings.Repeat(`"k":null,`, 500) + `"k":1},"last":[]}`,
			has: []string{`"… 437 more":null}`, `"last":[]}`},
		},
		"a number without end": {
			in:  `{"n":` + strings.Repeat("1", 5000) + `,"last":-1.5e3}`,
			has: []string{`{"n":"…","last":-1.5e3}`},
		},
		"nothing but structure": {
			in:  strings.Repeat(`[`, 1000) + strings.Repeat(`]`, 1000),
			has: []string{`"[[[[`, `bytes cut]…`, `]]]]"`},
		},
		"no JSON":                   {in: `{"a":` + long, has: []string{`"{\"a\":bbb`, `bytes cut]…`, `eee"`}},
		"what only looks like JSON": {in: `{"n":00,"s":"` + long + `"}`, has: []string{`"{\"n\":00,\"s\":\"bbb`, `eee\"}"`}},
		"more than one value":       {in: `{"s":"` + long + `"} {}`, has: []string{`"{\"s\":\"`, `eee\"} {}"`}},
		"escapes":                   {in: `{"s":"` + strings.Repeat(`\u00e9\\\"\n`, 300) + `"}`, has: []string{`\u00e9\\\"\n`, `bytes cut]…`}, lack: []string{`\\u00e9`}},
		"few escapes":               {in: `{"s":"` + strings.Repeat(`abcdefghijklmnopqrstabcdef\\\"\n`, 100) + `"}`, has: []string{`f\\\"\na`}, lack: []string{`f\\\\`}},
		"other letters":             {in: `{"s":"` + strings.Repeat(`日本語é`, 300) + `"}`, has: []string{`日本語é`, `bytes cut]…`}, lack: []string{"\uFFFD", `\ufffd`}},
		"short as it is":            {in: `{ "s" : 1.0 }`, has: []string{`{ "s" : 1.0 }`}},
	} {
		t.Run(name, func(t *testing.T) {
			for shift := range 32 { // wherever the cut comes
				in := strings.Replace(tc.in, `{"s":"`, `{"s":"`+strings.Repeat("q", shift), 1)
				if rest, ok := strings.CutSuffix(in, `é"}`); ok || strings.HasSuffix(in, `\n"}`) {
					in = strings.TrimSuffix(rest, `"}`) + strings.Repeat("q", shift) + `"}`
				}
				got := string(shorten(json.RawMessage(in), limit, secrets{}))
				if !json.Valid([]byte(got)) || !utf8.ValidString(got) || len(got) > limit {
					t.Fatalf("%d bytes, valid %v: %s", len(got), json.Valid([]byte(got)), got)
				}
				for _, want := range tc.has {
					if !strings.Contains(got, want) {
						t.Fatalf("no %s in %s", want, got)
					}
				}
				for _, bad := range tc.lack {
					if strings.Contains(got, bad) {
						t.Fatalf("%s in %s", bad, got)
					}
				}
			}
		})
	}
}

// A line of megabytes costs no more memory than what is kept of it.
func TestShortenTakesLittleMemory(t *testing.T) {
	l, err := openEventLog(filepath.Join(t.TempDir(), eventsFile), newSecrets([]string{testKey}))
	must(t, err)
	defer func() { must(t, l.close()) }()
	raw := json.RawMessage(`{"params":{"item":{"type":"commandExecution","command":"cat","aggregatedOutput":"` +
		strings.Repeat(`line\n`, 2<<20) + `","exitCode":0}}}`)
	result := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			if err := l.append(codex.Event{Name: "notification", Raw: raw}); err != nil {
				b.Fatal(err)
			}
		}
	})
	if most := int64(40 * eventFieldLimit); result.AllocedBytesPerOp() > most {
		t.Errorf("%d bytes for an event of %d", result.AllocedBytesPerOp(), len(raw))
	}
	text := read(t, l.path)
	line, _, _ := strings.Cut(text, "\n")
	if !strings.Contains(line, `"exitCode":0`) || len(line) > eventFieldLimit+1000 {
		t.Errorf("%d bytes: %.200s", len(line), line)
	}
}

// FuzzShorten: whatever the agent sends, what is kept is JSON, bounded, and without the secret.
func FuzzShorten(f *testing.F) {
	f.Add(`{"a":"`+testKey+`","b":[1,2.5e3,null,true,{"c":"\ud83d\ude00\\"}]}`, 3)
	f.Add(`["`+strings.Repeat("x", 90)+testKey+strings.Repeat("y", 90)+`"]`, 1)
	f.Add(`{"a":`, 0)
	f.Add(`"\`, 0)
	f.Add("\xff\"\\u12", 7)
	s := newSecrets([]string{testKey})
	f.Fuzz(func(t *testing.T, text string, shift int) {
		const limit = 256
		if shift < 0 || shift > 1000 {
			t.Skip()
		}
		text = strings.Repeat(" ", shift) + text
		got := shorten(json.RawMessage(text), limit, s)
		if len(text) <= limit {
			return // encode has it
		}
		if len(got) > limit || !json.Valid(got) {
			t.Errorf("%d bytes: %q", len(got), got)
		}
		var kept any // as it reads: an escape in front of half a key may look like the rest of it
		clean := s.scrub(got)
		if err := json.Unmarshal(clean, &kept); err != nil {
			kept = string(clean)
		}
		if strings.Contains(fmt.Sprint(kept), testKey[8:]) && !strings.Contains(strings.ReplaceAll(text, testKey, ""), testKey[8:]) {
			t.Errorf("the secret stands in %q", got)
		}
	})
}

// A secret that a cut goes through leaves no half of itself, wherever the cut comes; nor does one that is known only by
// what announces it.
func TestCutThroughASecret(t *testing.T) {
	const keep, length = 1600, 4000
	key := testKey + "-" + strings.Repeat("0123456789", 4) + testKey // much longer than an escape
	s := newSecrets([]string{key})
	for _, hidden := range []string{key, "Bearer " + strings.Repeat("T", 60), `\"` + key + `\"\n`} {
		for at := range length {
			// The others shorten what is looked at, and so move the cut.
			text := key + strings.Repeat("-x", at/2) + " " + hidden + " " + strings.Repeat("y-", (length-at)/2) + key
			head, tail := ends([]byte(text), keep, s)
			for _, part := range []string{string(head), string(tail)} {
				if strings.Contains(part, testKey[:9]) || strings.Contains(part, testKey[len(testKey)-9:]) || strings.Contains(part, "TTTT") {
					t.Fatalf("at %d of %d: %q", at, len(text), part)
				}
			}
			if len(head) < keep/4 || len(tail) < keep/16 {
				t.Fatalf("at %d only %d and %d bytes are left", at, len(head), len(tail))
			}
		}
	}
}
