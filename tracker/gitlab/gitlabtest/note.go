package gitlabtest

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/internal/text"
)

// Note is a comment of an issue or a merge request.
type Note struct {
	ID                   int64
	Author               string // login; Operator if empty
	Body                 string
	System               bool // GitLab's own, about a change
	CreatedAt, UpdatedAt time.Time

	// Of a note on a line of a merge request.
	Commit, File string
	Line         int
	Resolved     bool
}

func (s *Server) addNote(to *[]*Note, n Note) *Note {
	s.notes++
	n.ID = s.notes
	n.Author = cmp.Or(n.Author, Operator)
	n.CreatedAt = cmp.Or(n.CreatedAt, s.now())
	n.UpdatedAt = cmp.Or(n.UpdatedAt, n.CreatedAt)
	*to = append(*to, &n)
	return &n
}

// Comment adds a comment to an issue; at is now if it is zero. Quick actions are carried out.
func (s *Server) Comment(ref, author, body string, at time.Time) error {
	return s.onIssue(ref, func(_ *project, i *Issue) {
		s.addNote(&i.Notes, Note{
			Author:    author,
			Body:      body,
			CreatedAt: at,
		})
		i.UpdatedAt = s.now()
	})
}

func noteObject(kind string, n *Note) object {
	return object{
		"id":            n.ID,
		"type":          nil,
		"body":          n.Body,
		"author":        userObject(n.Author),
		"created_at":    stamp(n.CreatedAt),
		"updated_at":    stamp(n.UpdatedAt),
		"system":        n.System,
		"noteable_type": kind,
		"resolvable":    false,
		"confidential":  false,
		"internal":      false,
		"imported":      false,
		"imported_from": "none",
	}
}

// selectNotes returns the notes that the query selects, the newest first unless it says otherwise.
func (c *call) selectNotes(all []*Note) []*Note {
	q := c.r.URL.Query()
	list := text.Filter(all, func(n *Note) bool {
		return !n.System || q.Get("activity_filter") != "only_comments"
	})
	slices.SortStableFunc(list, func(a, b *Note) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID))
	})
	if q.Get("sort") == "asc" {
		slices.Reverse(list)
	}
	return list
}

func (c *call) listNotes() answer {
	return page(c, c.selectNotes(c.issue.Notes), func(n *Note) object { return noteObject("Issue", n) })
}

// text reads the text of a note.
func (c *call) text() string {
	var asked struct{ Body string }
	c.decode(&asked)
	if strings.TrimSpace(asked.Body) == "" {
		panic(unfit("body is empty"))
	}
	return asked.Body
}

// createNote adds a note. A note with nothing but quick actions does not become one.
func (c *call) createNote() answer {
	body, commands := extract(c.text())
	changes := c.carryOut(c.issue, commands)
	if strings.TrimSpace(body) == "" {
		return answer{http.StatusAccepted, object{"commands_changes": changes, "summary": []string{"Done."}}}
	}
	n := c.addNote(&c.issue.Notes, Note{Author: c.user, Body: body})
	c.issue.UpdatedAt = c.now()
	o := noteObject("Issue", n)
	o["commands_changes"] = changes
	return made(o)
}

func (c *call) editNote() answer {
	at := slices.IndexFunc(c.issue.Notes, func(n *Note) bool {
		return strconv.FormatInt(n.ID, 10) == c.named["note_id"]
	})
	if at < 0 {
		return missing("Note")
	}
	n := c.issue.Notes[at]
	body, commands := extract(c.text())
	n.Body = body
	n.UpdatedAt = c.now()
	c.carryOut(c.issue, commands)
	return ok(noteObject("Issue", n))
}
