// Baseline does the minimum of work for the same result as the program. scripts/bench divides
// the cost of the program by the cost of baseline.
//
//	baseline requests DATABASE ENDPOINT FILE
//		sends the request bodies in FILE, a line each, decodes the issues and stores each once
//	baseline heartbeats DATABASE RUN
//		updates the heartbeat of a run every five seconds, until stdin ends
//	baseline rows DATABASE SQL...
//		reads all rows of the queries
//	baseline answer
//		repeats the first line of stdin, as an agent answers its first message, until stdin ends
//	baseline spin DURATION
//		uses that much CPU time, as the programs of a slow login profile do
package main

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"syscall"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

func main() {
	switch {
	case len(os.Args) == 2 && os.Args[1] == "answer":
		answer(os.Stdin, os.Stdout)
	case len(os.Args) == 3 && os.Args[1] == "spin":
		spin(must(time.ParseDuration(os.Args[2])))
	case len(os.Args) > 3:
		run(os.Args[1], os.Args[2], os.Args[3:])
	default:
		panic("usage: baseline requests|heartbeats|rows DATABASE ARGUMENTS, baseline answer, or baseline spin DURATION")
	}
}

func run(command, database string, args []string) {
	const settings = "?mode=rw&_txlock=immediate&_pragma=busy_timeout(60000)&_pragma=synchronous(normal)"
	db := must(sql.Open("sqlite", "file:"+database+settings))
	db.SetMaxOpenConns(1)
	switch command {
	case "requests":
		requests(db, args[0], args[1])
	case "heartbeats":
		heartbeats(db, args[0])
	case "rows":
		for _, query := range args {
			printCount(db, query)
		}
	default:
		panic("unknown command " + command)
	}
	check(db.Close())
}

// check panics with an error: this program cannot handle errors in any other way.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func answer(in io.Reader, out io.Writer) {
	lines := bufio.NewReader(in)
	must(io.WriteString(out, must(lines.ReadString('\n'))))
	must(io.Copy(io.Discard, lines))
}

func spin(limit time.Duration) {
	for used := time.Duration(0); used < limit; {
		var usage syscall.Rusage
		check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
		used = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
}

// issue lists the fields that the program requests and stores.
type issue struct {
	ID          string    `json:"id"`
	Identifier  string    `json:"identifier"`
	Title       string    `json:"title"`
	Description string    `json:"description"`
	Priority    float64   `json:"priority"`
	BranchName  string    `json:"branchName"`
	URL         string    `json:"url"`
	CreatedAt   time.Time `json:"createdAt"`
	UpdatedAt   time.Time `json:"updatedAt"`
	State       struct{ Name string }
	Labels      struct{ Nodes []struct{ Name string } }
	Relations   struct{ Nodes []json.RawMessage } `json:"inverseRelations"`
}

func requests(db *sql.DB, endpoint, file string) {
	var passes int
	check(db.QueryRow(`SELECT count(*) FROM passes`).Scan(&passes))
	f := must(os.Open(file))
	defer f.Close()
	stored := map[string]bool{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		store(db, fetch(endpoint, lines.Bytes()), stored)
	}
	check(lines.Err())
}

func fetch(endpoint string, body []byte) []issue {
	req := must(http.NewRequest(http.MethodPost, endpoint, bytes.NewReader(body)))
	req.Header.Set("Authorization", os.Getenv("LINEAR_API_KEY"))
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	check(err)
	defer resp.Body.Close()
	data := must(io.ReadAll(resp.Body))
	if resp.StatusCode != http.StatusOK {
		panic(fmt.Sprintf("HTTP %s: %.200s", resp.Status, data))
	}
	var answer struct {
		Data struct{ Issues struct{ Nodes []issue } }
	}
	check(json.Unmarshal(data, &answer))
	return answer.Data.Issues.Nodes
}

// store writes the issues of a page that were not stored before in a single transaction.
func store(db *sql.DB, issues []issue, stored map[string]bool) {
	if len(issues) == 0 {
		return
	}
	tx := must(db.Begin())
	for _, i := range issues {
		if stored[i.ID] {
			continue
		}
		stored[i.ID] = true
		must(tx.Exec(`UPDATE claims SET issue = ?, version = version + 1, updated_at = ? WHERE issue_id = ?`,
			string(must(json.Marshal(i))), time.Now().UnixMilli(), i.ID))
	}
	check(tx.Commit())
}

func heartbeats(db *sql.DB, run string) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // any end of stdin ends the program
		cancel()
	}()
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		var stop string
		// Like a worker it waits for the write lock, and reads whether it must stop.
		err := db.QueryRowContext(ctx, `UPDATE runs SET heartbeat_at = ?, beats = beats + 1 WHERE id = ?
			RETURNING coalesce(stop_reason, '')`, time.Now().UnixMilli(), run).Scan(&stop)
		if ctx.Err() == nil {
			check(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// printCount prints how many rows a query has.
func printCount(db *sql.DB, query string) {
	list := must(db.Query(query))
	defer list.Close()
	values := make([]any, len(must(list.Columns())))
	for n := range values {
		values[n] = new(any)
	}
	count := 0
	for ; list.Next(); count++ {
		check(list.Scan(values...))
	}
	check(list.Err())
	fmt.Println(count)
}
