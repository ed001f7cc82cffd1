package gitlab

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/gitlabapi"
	"github.com/symphony-cron/symphony/internal/adapter/repoissue"
	"github.com/symphony-cron/symphony/internal/text"
)

// fullName is the name of an issue for all projects.
type fullName struct {
	Full string `json:"full"` // group/project#12
}

// project is the name of the project of the issue.
func (n fullName) project() string {
	name, _, _ := strings.Cut(n.Full, "#")
	return name
}

// wireIssue is an issue in GitLab's words.
type wireIssue struct {
	ID        int64               `json:"id"`
	Number    int                 `json:"iid"`
	Title     string              `json:"title"`
	Body      string              `json:"description"`
	URL       string              `json:"web_url"`
	State     string              `json:"state"`
	Labels    []string            `json:"labels"`
	Assignees []gitlabapi.Account `json:"assignees"`
	CreatedAt time.Time           `json:"created_at"`
	UpdatedAt time.Time           `json:"updated_at"`
	MovedTo   int64               `json:"moved_to_id"` // another issue, which continues this one; 0 for none
	Project   int64               `json:"project_id"`
	Names     fullName            `json:"references"`
}

// read decodes an issue of a project. It is false for an issue that was moved to another one.
func read(project string, data json.RawMessage) (r repoissue.Record, isHere bool) {
	var w wireIssue
	if err := json.Unmarshal(data, &w); err != nil {
		// the field that all trackers of repositories call number
		var known struct {
			Number json.RawMessage `json:"iid"`
		}
		_ = json.Unmarshal(data, &known) // then it stays unknown
		return repoissue.Malformed(project, text.JSON(map[string]any{"number": known.Number}), err), true
	}
	return w.record(project), w.MovedTo == 0
}

func (w wireIssue) record(project string) repoissue.Record {
	r := repoissue.Record{
		Repo:    project,
		Number:  w.Number,
		ID:      w.ID,
		Title:   w.Title,
		Body:    w.Body,
		URL:     w.URL,
		Project: w.Project,
		Path:    w.Names.project(),
		Created: w.CreatedAt.UTC(),
		Updated: w.UpdatedAt.UTC(),
	}
	state := w.State
	if state == stateOpen {
		state = "open"
	}
	logins := text.Map(w.Assignees, func(a gitlabapi.Account) string { return a.Login })
	r.Complete(state, w.Labels, logins)
	return r
}
