//go:build linux

package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symphony-cron/symphony/state/statetest"
)

// BenchmarkStream compares passes beside a page that 200 clients follow with passes beside the
// same server without clients, with 500 claims. The server must not grow: it has as much
// memory at the end as after the first third.
func BenchmarkStream(b *testing.B) {
	const claims, clients = 500, 200
	p := newProject(b, 10)
	p.quietTick() // creates the database
	p.addClaims(claims)
	p.setIssues(claims, 0, "")
	p.quietTick()
	server, address := p.serve()
	defer server.end()
	rounds := unlessShort(9, 3)
	passes := unlessShort(12, 4)
	report(b, func() []metric {
		var alone, beside samples
		early := 0.0
		events := 0
		for n := range rounds {
			alone = append(alone, p.changingPasses(passes)...)
			leave, count := follow(address, clients)
			beside = append(beside, p.changingPasses(passes)...)
			if n == rounds/3 {
				early = server.megabytes()
			}
			pause(time.Second)
			events += count()
			leave()
		}
		late := server.megabytes()
		return append(
			against(beside.wall(), alone.wall(), "wall", 1.1),
			metric{
				late - early,
				"grown-MB",
				4,
			},
			metric{late, "server-MB", math.Inf(1)},
			metric{median(beside.cpu()) / median(alone.cpu()), "x-CPU", math.Inf(1)},
			metric{float64(events) / float64(rounds*clients), "events", math.Inf(1)},
		)
	})
}

// BenchmarkSearch measures a search on the page with 5,000 claims and 100,000 runs, and the
// size of the page.
func BenchmarkSearch(b *testing.B) {
	p := newProject(b, 10)
	must(statetest.Large(ctx, p.StateDir, time.Now(), statetest.Size{
		Claims: unlessShort(5000, 500),
		Runs:   unlessShort(100_000, 5000),
		Passes: 1000,
	}))
	server, address := p.serve()
	defer server.end()
	client := &http.Client{Transport: &http.Transport{}}
	search := func(words string) (ms, kB float64) {
		r := get(http.NewRequestWithContext(ctx, http.MethodGet, address+"?q="+words, nil))
		began := time.Now()
		answer := get(client.Do(r)) //nolint:bodyclose // closed below
		size := get(io.Copy(io.Discard, answer.Body))
		must(answer.Body.Close())
		if answer.StatusCode != http.StatusOK {
			panic(answer.Status)
		}
		return float64(time.Since(began).Microseconds()) / 1000, float64(size) / 1000
	}
	report(b, func() []metric {
		times := map[bool][]float64{}
		most := 0.0
		for _, changed := range []bool{false, true} {
			for n := range unlessShort(21, 5) {
				if changed {
					p.symphony([]string{"pause", "resume"}[n%2])
				}
				ms, size := search([]string{"abc-49", "nothing+like+it", "label:bug"}[n%3])
				times[changed] = append(times[changed], ms)
				most = max(most, size)
			}
		}
		return []metric{
			{median(times[false]), "ms", 100},
			{median(times[true]), "ms-after-a-change", 100},
			{most, "kB", 100},
		}
	})
}

// changingPasses are passes after each of which the page is another one.
func (p *project) changingPasses(count int) (passes samples) {
	for n := range count {
		p.symphony([]string{"pause", "resume"}[n%2])
		passes = append(passes, p.quietTick())
	}
	return passes
}

// follow opens streams of the overview. leave closes them, and count is how many events have
// come.
func follow(address string, clients int) (leave func(), count func() int) {
	following, cancel := context.WithCancel(ctx)
	transport := &http.Transport{}
	var wait, first sync.WaitGroup
	var mu sync.Mutex
	events := 0
	for range clients {
		first.Add(1)
		wait.Go(func() {
			r := get(http.NewRequestWithContext(following, http.MethodGet, address, nil))
			r.Header.Set("Accept", "text/event-stream")
			answer, err := transport.RoundTrip(r)
			if err != nil {
				must(following.Err())
				must(err)
			}
			defer answer.Body.Close()
			begun := sync.OnceFunc(first.Done)
			for lines := bufio.NewReaderSize(answer.Body, 64<<10); ; {
				line, _, err := lines.ReadLine()
				if err != nil {
					return // the stream was left
				}
				if string(line) == "event: page" {
					mu.Lock()
					events++
					mu.Unlock()
					begun()
				}
			}
		})
	}
	first.Wait()
	return func() {
			cancel()
			wait.Wait()
		}, func() int {
			mu.Lock()
			defer mu.Unlock()
			return events
		}
}

// server is a running symphony serve.
type server struct{ *exec.Cmd }

func (p *project) serve() (s server, address string) {
	cmd := exec.CommandContext(ctx, programs.symphony, "serve", "--port", "0")
	cmd.Dir = p.Dir
	cmd.Env = p.Env
	cmd.Stderr = os.Stderr
	out := get(cmd.StdoutPipe())
	must(cmd.Start())
	line := get(bufio.NewReader(out).ReadString('\n'))
	go io.Copy(io.Discard, out)
	_, address, _ = strings.Cut(strings.TrimSpace(line), " at ")
	return server{cmd}, address
}

func (s server) end() {
	must(s.Process.Signal(os.Interrupt))
	_ = s.Wait()
}

// megabytes is the memory of the server's own: anonymous pages.
func (s server) megabytes() (mb float64) {
	for line := range strings.Lines(string(get(os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Process.Pid))))) {
		if n, err := fmt.Sscanf(line, "RssAnon: %f kB", &mb); n == 1 && err == nil {
			break
		}
	}
	return mb / 1000
}
