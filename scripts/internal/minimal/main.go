// Minimal is what a pass with nothing to do is measured against: the least program that takes a pass's steps, with the
// same libraries. It reads its flags and WORKFLOW.md, takes a lock, opens the database, reads what is claimed and what
// runs, asks the tracker, looks at its answer and records the pass. It checks nothing, keeps nothing, and would
// handle nothing.
//
//	LINEAR_API_KEY=… minimal --workflow WORKFLOW.md --state-dir DIR --request BODY-FILE
package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"github.com/osteele/liquid"
	"github.com/urfave/cli/v2"
	"gopkg.in/yaml.v3"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

func main() {
	app := &cli.App{
		Name: "minimal",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "workflow", Required: true}, &cli.StringFlag{Name: "state-dir", Required: true},
			&cli.StringFlag{Name: "request", Required: true},
		},
		Action: func(c *cli.Context) error {
			return pass(c.String("workflow"), c.String("state-dir"), c.String("request"))
		},
	}
	if err := app.Run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "minimal:", err)
		os.Exit(1)
	}
}

// settings are what it needs of WORKFLOW.md.
type settings struct {
	Tracker struct {
		Endpoint string `yaml:"endpoint"`
		APIKey   string `yaml:"api_key"`
	} `yaml:"tracker"`
}

func pass(workflow, stateDir, request string) error {
	began := time.Now()
	s, err := load(workflow)
	if err != nil {
		return err
	}
	lock := flock.New(filepath.Join(stateDir, "lock"))
	if locked, err := lock.TryLock(); err != nil || !locked {
		return errors.Join(err, errors.New("the lock is taken"))
	}
	db, claims, runs, err := recorded(filepath.Join(stateDir, "state.db"))
	if err != nil {
		return err
	}
	body, err := os.ReadFile(request)
	if err != nil {
		return err
	}
	candidates, err := ask(s, body)
	if err != nil {
		return err
	}
	_, err = db.Exec(`INSERT INTO passes ("trigger", started_at, duration_ms, actions, skipped, errors, boot_id, mono_ns)
		VALUES ('manual', ?, ?, 0, 0, '[]', '', 0)`, began.UnixMilli(), time.Since(began).Milliseconds())
	if err != nil {
		return err
	}
	fmt.Printf("%d claims, %d runs, %d candidates\n", claims, runs, candidates)
	return errors.Join(leave(db, filepath.Join(stateDir, "state.db-wal")), lock.Unlock())
}

// leave merges the log into the database where it has grown. To close the database would do that each time.
func leave(db *sql.DB, log string) error {
	if info, err := os.Stat(log); err == nil && info.Size() <= leftLog {
		return nil
	}
	return db.Close()
}

const leftLog = 64 << 10 // bytes, as in a pass

func load(path string) (s settings, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return s, err
	}
	front, prompt, _ := bytes.Cut(bytes.TrimPrefix(text, []byte("---\n")), []byte("\n---\n"))
	if err := yaml.Unmarshal(front, &s); err != nil {
		return s, err
	}
	s.Tracker.APIKey = os.ExpandEnv(s.Tracker.APIKey)
	if _, err := liquid.NewEngine().ParseTemplate(prompt); err != nil {
		return s, err
	}
	return s, nil
}

func recorded(path string) (db *sql.DB, claims, runs int, err error) {
	db, err = sql.Open("sqlite", "file:"+path+"?mode=rw&_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=synchronous(normal)")
	if err != nil {
		return nil, 0, 0, err
	}
	db.SetMaxOpenConns(1)
	if err := db.QueryRow(`SELECT count(*) FROM claims`).Scan(&claims); err != nil {
		return nil, 0, 0, err
	}
	err = db.QueryRow(`SELECT count(*) FROM runs WHERE outcome IS NULL`).Scan(&runs)
	return db, claims, runs, err
}

func ask(s settings, body []byte) (candidates int, err error) {
	req, err := http.NewRequest(http.MethodPost, s.Tracker.Endpoint, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", s.Tracker.APIKey)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var answer struct {
		Data struct {
			Issues struct {
				Nodes []json.RawMessage `json:"nodes"`
			} `json:"issues"`
		} `json:"data"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return 0, err
	}
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("HTTP %s", resp.Status)
	}
	return len(answer.Data.Issues.Nodes), nil
}
