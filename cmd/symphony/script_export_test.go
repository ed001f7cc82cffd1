package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symphony-cron/symphony/internal/test"
)

// TestExportedNames checks that the conventions have the names that export uses.
func TestExportedNames(t *testing.T) {
	test.Expensive(t)
	// it downloads the module
	list := exec.Command("go", "list", "-f", "{{.Dir}}", "go.opentelemetry.io/otel/semconv/v1.41.0")
	list.Dir = filepath.Join("..", "..", "scripts", "collectortest")
	dir := strings.TrimSpace(string(test.Must(list.Output())))
	conventions := string(test.Must(os.ReadFile(filepath.Join(dir, "attribute_group.go"))))
	names := string(test.Must(os.ReadFile(filepath.Join("internal", "act", "export", "spans.go"))))
	found := regexp.MustCompile(`"((?:gen_ai|error|process)\.[^"]+|invoke_\w+|execute_\w+)"`).
		FindAllStringSubmatch(names, -1)
	if len(found) < 20 {
		t.Errorf("only %d names found", len(found))
	}
	for _, name := range found {
		if !strings.Contains(conventions, name[0]) {
			t.Errorf("the conventions have no %s", name[1])
		}
	}
}

// collector receives spans from the program, and from codex.
type collector struct {
	*httptest.Server
	mu       sync.Mutex
	requests []http.Header
	spans    []map[string]any
	answer   int // the status
	header   string
	body     string
}

// collectorCmd controls a collector of OpenTelemetry:
//
//	collector start              starts it, and sets COLLECTOR to its URL
//	collector build              builds OpenTelemetry's own receiver (scripts/collectortest), and sets RECEIVER to it
//	collector answer STATUS NAME=VALUE BODY answers later requests so; "-" stands for no header
//	collector spans              prints the spans: trace, span, parent, name and attributes
//	collector header NAME        prints that header of each request
func collectorCmd(ts *testscript.TestScript, neg bool, args []string) {
	stage := stageOf(ts)
	c := stage.collector
	if args[0] == "start" {
		c = &collector{answer: http.StatusOK, body: "{}"}
		c.Server = httptest.NewServer(http.HandlerFunc(c.serve))
		ts.Defer(c.Close)
		stage.collector = c
		setVar(ts, "COLLECTOR", c.URL)
		return
	}
	if args[0] == "build" {
		setVar(ts, "RECEIVER", ts.MkAbs("receiver"))
		build := exec.Command("go", "build", "-o", ts.MkAbs("receiver"), ".")
		build.Dir = filepath.Join("..", "..", "scripts", "collectortest")
		if out, err := build.CombinedOutput(); err != nil {
			ts.Fatalf("%v: %s", err, out)
		}
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch args[0] {
	case "answer":
		status, err := strconv.Atoi(args[1])
		ts.Check(err)
		c.answer = status
		c.header = args[2]
		c.body = strings.Join(args[3:], " ")
	case "spans":
		for _, s := range c.spans {
			parent, _ := s["parentSpanId"].(string)
			fmt.Fprintf(ts.Stdout(), "%s %s %s %s", s["traceId"], s["spanId"], parent, s["name"])
			list, _ := s["attributes"].([]any)
			for _, a := range list {
				pair := a.(map[string]any)
				for _, value := range pair["value"].(map[string]any) {
					fmt.Fprintf(ts.Stdout(), " %s=%v", pair["key"], value)
				}
			}
			fmt.Fprintln(ts.Stdout())
		}
	case "header":
		for _, h := range c.requests {
			fmt.Fprintln(ts.Stdout(), h.Get(args[1]))
		}
	default:
		ts.Fatalf("collector: unknown verb %q", args[0])
	}
}

func (c *collector) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var message struct {
		ResourceSpans []struct {
			ScopeSpans []struct{ Spans []map[string]any }
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.URL.Path != "/v1/traces" || json.Unmarshal(body, &message) != nil {
		http.NotFound(w, r)
		return
	}
	c.requests = append(c.requests, r.Header)
	if c.answer == http.StatusOK {
		for _, resource := range message.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				c.spans = slices.Concat(c.spans, scope.Spans)
			}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	if name, value, ok := strings.Cut(c.header, "="); ok {
		w.Header().Set(name, value)
	}
	w.WriteHeader(c.answer)
	fmt.Fprint(w, c.body)
}
