package github

import (
	"encoding/json"
	"time"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
)

// closing is a pull request that closes an issue when it is merged.
type closing struct {
	URL     string `json:"url"`
	State   string `json:"state"`
	Branch  string `json:"headRefName"`
	Foreign bool   `json:"isCrossRepository"`
	Own     bool   `json:"viewerDidAuthor"`
	Author  *struct {
		Type  string `json:"__typename"`
		Login string `json:"login"`
	} `json:"author"` // nil for a deleted account
}

// restIssue is an issue in the answers of the REST API.
type restIssue struct {
	ID           int64     `json:"id"`
	Node         string    `json:"node_id"`
	Number       int       `json:"number"`
	Title        string    `json:"title"`
	Body         *string   `json:"body"`
	State        string    `json:"state"`
	URL          string    `json:"html_url"`
	Labels       []label   `json:"labels"`
	Assignees    []account `json:"assignees"`
	CreatedAt    time.Time `json:"created_at"`
	UpdatedAt    time.Time `json:"updated_at"`
	Dependencies struct {
		Blockers int `json:"total_blocked_by"`
	} `json:"issue_dependencies_summary"`
	PullRequest any `json:"pull_request"`
}

// label is an object, or in some answers only its name.
type label struct {
	Name string `json:"name"`
}

func (l *label) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &l.Name) == nil {
		return nil
	}
	type object label
	return json.Unmarshal(data, (*object)(l))
}

type account struct {
	Login string `json:"login"`
	ID    int64  `json:"databaseId"` // only where a query asks for it
}

// nodes are a connection.
type nodes[T any] = transport.List[T]

type repositoryName struct {
	Name string `json:"nameWithOwner"`
}

// graphIssue is an issue in the answers of the GraphQL API.
type graphIssue struct {
	Node      string          `json:"id"`
	ID        json.RawMessage `json:"fullDatabaseId"` // a number, or a number in quotes
	Number    int             `json:"number"`
	Title     string          `json:"title"`
	Body      string          `json:"body"`
	URL       string          `json:"url"`
	State     string          `json:"state"`
	CreatedAt time.Time       `json:"createdAt"`
	UpdatedAt time.Time       `json:"updatedAt"`
	Assignees nodes[account]  `json:"assignees"`
	Labels    nodes[label]    `json:"labels"`
	Comments  nodes[struct {
		CreatedAt time.Time `json:"createdAt"`
	}] `json:"comments"`
	BlockedBy nodes[struct {
		Number     int            `json:"number"`
		State      string         `json:"state"`
		Repository repositoryName `json:"repository"`
	}] `json:"blockedBy"`
	ClosedBy nodes[closing]   `json:"closedByPullRequestsReferences"`
	Items    nodes[boardItem] `json:"projectItems"`
}

// boardItem is the place of an issue on a board.
type boardItem struct {
	ID       json.Number `json:"fullDatabaseId"` // in quotes
	Archived bool        `json:"isArchived"`
	Project  struct {
		URL string `json:"url"`
	} `json:"project"`
	Column struct {
		Name string `json:"name"`
	} `json:"fieldValueByName"`
}
