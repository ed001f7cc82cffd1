package giteatest

import (
	"database/sql"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// Repository is a repository whose issues a test arranges.
type Repository struct {
	*Server
	Name   string   // team/NAME
	States []string // the labels that are states

	mu     sync.Mutex
	labels map[string]int64 // by name in lower case, for labels that this value has made
}

// Issue is an issue to make. The states are the labels in States, open and closed.
type Issue struct {
	Title, Body, State string
	Labels             []string
	Assignee           string
	Number             int // 0 for the next one
}

// At is a path below the repository.
func (r *Repository) At(format string, args ...any) string {
	return "/repos/" + r.Name + fmt.Sprintf(format, args...)
}

// label is a label of the repository.
type label struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
}

// labelID returns the id of a label.
func (r *Repository) labelID(name string) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if id := r.labels[strings.ToLower(name)]; id != 0 {
		return id, nil
	}
	id, err := r.findLabel(name)
	if r.labels == nil {
		r.labels = map[string]int64{}
	}
	r.labels[strings.ToLower(name)] = id
	return id, err
}

// findLabel looks for a label, which is made if there is none.
func (r *Repository) findLabel(name string) (int64, error) {
	var labels []label
	if err := r.As(Owner, http.MethodGet, r.At("/labels?limit=50"), nil, &labels); err != nil {
		return 0, err
	}
	for _, l := range labels {
		if strings.EqualFold(l.Name, name) {
			return l.ID, nil
		}
	}
	var made label
	body := map[string]string{"name": name, "color": "#00aabb"}
	err := r.As(Owner, http.MethodPost, r.At("/labels"), body, &made)
	return made.ID, err
}

// Add makes an issue and returns its number.
func (r *Repository) Add(i Issue) (int, error) {
	names := i.Labels
	if i.State != "open" && i.State != "closed" {
		names = append([]string{i.State}, names...)
	}
	ids := []int64{}
	for _, name := range names {
		id, err := r.labelID(name)
		if err != nil {
			return 0, err
		}
		ids = append(ids, id)
	}
	body := map[string]any{"title": i.Title, "body": i.Body, "labels": ids, "closed": i.State == "closed"}
	if i.Assignee != "" {
		body["assignees"] = []string{i.Assignee}
	}
	var made struct {
		Number int `json:"number"`
	}
	if err := r.As(Owner, http.MethodPost, r.At("/issues"), body, &made); err != nil {
		return 0, err
	}
	if i.Number == 0 || made.Number == i.Number {
		return made.Number, nil
	}
	if made.Number > i.Number {
		return 0, fmt.Errorf("the next issue is %d, not %d", made.Number, i.Number)
	}
	if err := r.Delete(made.Number); err != nil { // numbers are given in order, and once only
		return 0, err
	}
	return r.Add(i)
}

// Delete deletes an issue.
func (r *Repository) Delete(number int) error {
	return r.As(Owner, http.MethodDelete, r.At("/issues/%d", number), nil, nil)
}

// Move moves an issue to a state as a person does.
func (r *Repository) Move(number int, state string) error {
	path := r.At("/issues/%d", number)
	if state == "closed" {
		return r.As(Owner, http.MethodPatch, path, map[string]string{"state": "closed"}, nil)
	}
	var issue struct {
		State  string  `json:"state"`
		Labels []label `json:"labels"`
	}
	if err := r.As(Owner, http.MethodGet, path, nil, &issue); err != nil {
		return err
	}
	ids := []int64{}
	for _, l := range issue.Labels {
		if !r.isState(l.Name) {
			ids = append(ids, l.ID)
		}
	}
	if state != "open" {
		id, err := r.labelID(state)
		if err != nil {
			return err
		}
		ids = append(ids, id)
	}
	err := r.As(Owner, http.MethodPut, path+"/labels", map[string]any{"labels": ids}, nil)
	if err != nil || issue.State == "open" {
		return err
	}
	return r.As(Owner, http.MethodPatch, path, map[string]string{"state": "open"}, nil)
}

func (r *Repository) isState(label string) bool {
	for _, s := range r.States {
		if strings.EqualFold(s, label) {
			return true
		}
	}
	return false
}

// State returns the state of an issue.
func (r *Repository) State(number int) (string, error) {
	var issue struct {
		State  string  `json:"state"`
		Labels []label `json:"labels"`
	}
	if err := r.As(Owner, http.MethodGet, r.At("/issues/%d", number), nil, &issue); err != nil {
		return "", err
	}
	if issue.State == "closed" {
		return "closed", nil
	}
	for _, s := range r.States {
		for _, l := range issue.Labels {
			if strings.EqualFold(s, l.Name) {
				return s, nil
			}
		}
	}
	return "open", nil
}

// Block makes an issue depend on another one of the repository.
func (r *Repository) Block(number, blocker int) error {
	owner, name, _ := strings.Cut(r.Name, "/")
	body := map[string]any{"owner": owner, "repo": name, "index": blocker}
	return r.As(Owner, http.MethodPost, r.At("/issues/%d/dependencies", number), body, nil)
}

// Comment comments on an issue as an account. It is not at the present time unless at is zero.
func (r *Repository) Comment(number int, author, text string, at time.Time) error {
	var made struct {
		ID int64 `json:"id"`
	}
	body := map[string]string{"body": text}
	err := r.As(author, http.MethodPost, r.At("/issues/%d/comments", number), body, &made)
	if err != nil || at.IsZero() {
		return err
	}
	return r.Exec(
		"UPDATE comment SET created_unix = ?, updated_unix = ? WHERE id = ?",
		at.Unix(), at.Unix(), made.ID,
	)
}

// Comments returns how many comments an issue has.
func (r *Repository) Comments(number int) (int, error) {
	var issue struct {
		Comments int `json:"comments"`
	}
	err := r.As(Owner, http.MethodGet, r.At("/issues/%d", number), nil, &issue)
	return issue.Comments, err
}

// Age makes an issue older.
func (r *Repository) Age(number int, age time.Duration) error {
	return r.Exec(
		"UPDATE issue SET created_unix = created_unix - ? WHERE \"index\" = ? AND repo_id = "+
			"(SELECT id FROM repository WHERE owner_name || '/' || name = ?)",
		int64(age/time.Second), number, r.Name,
	)
}

// Exec changes what the API can't change in the database of Gitea.
func (s *Server) Exec(query string, args ...any) error {
	path := "file:" + url.PathEscape(filepath.Join(s.dir, "gitea.db")) + "?_pragma=busy_timeout(10000)"
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.Exec(query, args...)
	return err
}

// Behind returns how many commits of its base Gitea has found that a pull request lacks.
func (r *Repository) Behind(number int) (commits int, err error) {
	path := "file:" + url.PathEscape(filepath.Join(r.dir, "gitea.db")) + "?_pragma=busy_timeout(10000)"
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	_, name, _ := strings.Cut(r.Name, "/")
	err = db.QueryRow(`SELECT commits_behind FROM pull_request JOIN repository ON repository.id = base_repo_id
		WHERE name = ? AND "index" = ?`, name, number).Scan(&commits)
	return commits, err
}
