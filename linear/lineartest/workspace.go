package lineartest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
)

// node is an entity of the workspace: get returns a field of its type in schema.graphql, as a string, float64,
// bool, time.Time, []string, node, []node (for a connection) or nil.
type node interface {
	typeName() string
	meta() *entity
	get(field string) any
}

type entity struct {
	id       string
	seq      int // order of creation, which tells apart what was made at the same instant
	created  time.Time
	updated  time.Time
	archived time.Time
	w        *workspace
}

func (e *entity) meta() *entity { return e }

func (e *entity) common(field string) any {
	switch field {
	case "id":
		return e.id
	case "createdAt":
		return e.created
	case "updatedAt":
		return e.updated
	case "archivedAt":
		return maybe(e.archived)
	}
	return nil
}

func maybe(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

// workspace is all the data. The server's lock guards it.
type workspace struct {
	now  func() time.Time
	seq  int
	sync int // Linear's lastSyncId: grows with every change

	org         *organization
	viewer      *user
	users       []*user
	teams       []*team
	projects    []*project
	labels      []*label
	issues      []*issue
	relations   []*relation
	comments    []*comment
	attachments []*attachment
}

// entity makes the common part of a new node. Ids are derived from kind and order, so that two runs agree.
func (w *workspace) entity(kind, id string) entity {
	w.seq++
	w.sync++
	if id == "" {
		id = uuid(kind, w.seq)
	}
	now := w.now().UTC().Truncate(time.Millisecond)
	return entity{id: id, seq: w.seq, created: now, updated: now, w: w}
}

func uuid(kind string, n int) string {
	h := sha256.Sum256(fmt.Appendf(nil, "%s/%d", kind, n))
	h[6], h[8] = h[6]&0x0f|0x40, h[8]&0x3f|0x80
	s := hex.EncodeToString(h[:16])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

func slugID(n int) string {
	h := sha256.Sum256(fmt.Appendf(nil, "slug/%d", n))
	return hex.EncodeToString(h[:6])
}

func (w *workspace) touch(n node) {
	w.sync++
	n.meta().updated = w.now().UTC().Truncate(time.Millisecond)
}

// byID finds a node, of an issue also by its identifier (without regard to case), of a project also by its slug id.
func (w *workspace) byID(typ, id string) node {
	for _, n := range w.all(typ) {
		if n.meta().id == id {
			return n
		}
		switch x := n.(type) {
		case *issue:
			if strings.EqualFold(x.identifier(), id) {
				return n
			}
		case *project:
			if x.slug == id {
				return n
			}
		case *team:
			if x.key == id {
				return n
			}
		}
	}
	return nil
}

// all lists the nodes of a type in the order of their creation.
func (w *workspace) all(typ string) []node {
	switch typ {
	case "User":
		return nodes(w.users)
	case "Team":
		return nodes(w.teams)
	case "Project":
		return nodes(w.projects)
	case "IssueLabel":
		return nodes(w.labels)
	case "Issue":
		return nodes(w.issues)
	case "IssueRelation":
		return nodes(w.relations)
	case "Comment":
		return nodes(w.comments)
	case "Attachment":
		return nodes(w.attachments)
	case "WorkflowState":
		var all []node
		for _, t := range w.teams {
			all = append(all, nodes(t.states)...)
		}
		return all
	}
	return nil
}

func nodes[T node](list []T) []node {
	all := make([]node, len(list))
	for i, n := range list {
		all[i] = n
	}
	return all
}

// where lists the issues that satisfy keep.
func (w *workspace) where(keep func(*issue) bool) []node {
	var all []node
	for _, i := range w.issues {
		if keep(i) {
			all = append(all, i)
		}
	}
	return all
}

func (w *workspace) label(name string) *label {
	for _, l := range w.labels {
		if strings.EqualFold(l.name, name) {
			return l
		}
	}
	return nil
}

func (w *workspace) user(who string) *user {
	for _, u := range w.users {
		if strings.EqualFold(u.email, who) || u.id == who || strings.EqualFold(u.name, who) {
			return u
		}
	}
	return nil
}

func (t *team) state(name string) *state {
	for _, s := range t.states {
		if strings.EqualFold(s.name, name) || s.id == name {
			return s
		}
	}
	return nil
}

// remove takes an issue and everything about it away for good.
func (w *workspace) remove(i *issue) {
	w.sync++
	w.issues = slices.DeleteFunc(w.issues, func(x *issue) bool { return x == i })
	w.comments = slices.DeleteFunc(w.comments, func(c *comment) bool { return c.issue == i })
	w.attachments = slices.DeleteFunc(w.attachments, func(a *attachment) bool { return a.issue == i })
	w.relations = slices.DeleteFunc(w.relations, func(r *relation) bool { return r.from == i || r.to == i })
	for _, x := range w.issues {
		if x.parent == i {
			x.parent = nil
		}
	}
}
