package jira

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/adapter/transport"
	"github.com/symphony-cron/symphony/internal/suggest"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

// permissions are the rights that symphony needs in the project, with the names that Jira shows.
var permissions = map[string]string{
	"BROWSE_PROJECTS":   "Browse Projects",
	"ADD_COMMENTS":      "Add Comments",
	"EDIT_OWN_COMMENTS": "Edit Own Comments",
	"TRANSITION_ISSUES": "Transition Issues",
}

// verify checks that the project, its statuses, the condition and the assignee exist. It warns
// about rights that the account lacks. Labels exist in Jira as soon as an issue has them.
func (c *client) verify(ctx context.Context, names reconcile.TrackerNames) (reconcile.TrackerFindings, error) {
	var found reconcile.TrackerFindings
	me, err := c.whoami(ctx)
	if err != nil {
		return found, err
	}
	p, err := c.project(ctx)
	if err != nil {
		return found, err
	}
	found.User = me.Name
	found.Project = c.asProject(p)
	if !strings.EqualFold(p.Key, c.o.Project) {
		c.api.WarnOnce(c.renamed(p.Key))
	}
	if p.Archived {
		found.Denied = &reconcile.Error{
			Message: "the project " + p.Key + " is archived, so that nothing in it can be changed",
			Hint:    "restore it",
		}
	}
	known, err := c.statuses(ctx)
	if err != nil {
		return found, err
	}
	found.States = transport.Unknown(text.Unique(names.States), namesOf(known), namesOf(known))
	denied, err := c.checkRights(ctx, me)
	if err != nil {
		return found, err
	}
	found.Denied = cmp.Or(found.Denied, denied)
	if err := c.checkQuery(ctx); err != nil {
		return found, err
	}
	found.Assignee, err = c.unknownAssignee(ctx, strings.TrimSpace(names.Assignee), me)
	return found, err
}

func (c *client) asProject(p project) reconcile.TrackerProject {
	return reconcile.TrackerProject{
		ID:   p.ID,
		Name: p.Name,
		Slug: p.Key,
		URL:  c.site + "/browse/" + p.Key,
	}
}

// checkRights returns the rights that the account lacks as an error; nil if it has all.
func (c *client) checkRights(ctx context.Context, me account) (*reconcile.Error, error) {
	keys := slices.Sorted(maps.Keys(permissions))
	found, err := get[struct {
		Permissions map[string]struct {
			Have bool `json:"havePermission"`
		} `json:"permissions"`
	}](ctx, c, "/mypermissions", url.Values{
		"projectKey":  {c.o.Project},
		"permissions": {strings.Join(keys, ",")},
	})
	if err != nil {
		return nil, err
	}
	var lacks []string
	for _, key := range keys {
		if !found.Permissions[key].Have {
			lacks = append(lacks, permissions[key])
		}
	}
	if lacks == nil {
		return nil, nil
	}
	const message = "%s lacks permissions in the project %s: %s"
	return &reconcile.Error{
		Message: fmt.Sprintf(message, me.Name, c.o.Project, strings.Join(lacks, ", ")),
		Hint:    "give them to that account",
	}, nil
}

// checkQuery lets Jira check the query with the operator's condition.
func (c *client) checkQuery(ctx context.Context) error {
	if c.o.JQL == "" {
		return nil
	}
	found, err := do[struct {
		Queries []struct {
			Errors []string `json:"errors"`
		} `json:"queries"`
	}](
		ctx, c, http.MethodPost, "/jql/parse",
		url.Values{"validation": {"strict"}},
		map[string]any{"queries": []string{fmt.Sprintf(`project = "%s" AND (%s)`, c.o.Project, c.o.JQL)}},
	)
	if err != nil {
		return err
	}
	for _, q := range found.Queries {
		if len(q.Errors) > 0 {
			return reconcile.NewError(
				"tracker_setting_invalid",
				"tracker.provider.jql: "+transport.Brief(c.api.Scrub(strings.Join(q.Errors, "; "))),
				"correct the condition: try it in Jira's search for issues",
			)
		}
	}
	return nil
}

// unknownAssignee returns an assignee that no account has as its id or email; nil if there is
// one, or if none was given.
func (c *client) unknownAssignee(ctx context.Context, name string, me account) (*reconcile.UnknownName, error) {
	if name == "" || strings.EqualFold(name, "me") || reconcile.SameUser(name, me.ID, c.o.User) {
		return nil, nil
	}
	// the search compares emails that it does not show
	query := url.Values{"project": {c.o.Project}, "query": {name}}
	if !strings.Contains(name, "@") {
		query = url.Values{"project": {c.o.Project}, "accountId": {name}}
	}
	users, err := get[[]account](ctx, c, "/user/assignable/search", query)
	if err != nil || len(users) > 0 {
		return nil, err
	}
	return &reconcile.UnknownName{Name: name, Nearest: suggest.Near(name, []string{c.o.User})}, nil
}

// kinds are the meanings of the categories of statuses.
var kinds = map[string]reconcile.StateKind{
	"new":           reconcile.StateWaiting,
	"indeterminate": reconcile.StateStarted,
	"done":          reconcile.StateEnded,
}

// Setup returns everything that init needs to connect a project to Jira with the token of an
// account.
func Setup(email string) reconcile.TrackerSetup {
	return reconcile.TrackerSetup{
		Name: "Jira",
		KeyQuestion: "Jira API token " +
			"(https://id.atlassian.com/manage-profile/security/api-tokens; it is not shown)",
		Connect: func(ctx context.Context, endpoint, token, source string) (reconcile.TrackerAccount, error) {
			return setupAccount(ctx, Options{Options: transport.Options{
				Endpoint:  endpoint,
				User:      email,
				Key:       token,
				KeySource: source,
			}})
		},
		RefusedKey: transport.RefusedKey,
	}
}

// mostProjects is how many projects init offers.
const mostProjects = 500

// setupAccount finds out whose token it is, and which projects it shows.
func setupAccount(ctx context.Context, o Options) (reconcile.TrackerAccount, error) {
	c, err := connect(o)
	if err != nil {
		return reconcile.TrackerAccount{}, err
	}
	me, err := c.whoami(ctx)
	if errors.Is(err, transport.ErrKey) { // or it is a token with scopes
		gated, known := c.atGateway(ctx)
		if known != nil {
			c = gated
			me = *known
			err = nil
		}
	}
	if err != nil {
		return reconcile.TrackerAccount{}, err
	}
	projects, err := c.projects(ctx)
	if err != nil {
		return reconcile.TrackerAccount{}, err
	}
	return reconcile.TrackerAccount{
		CloudID:  c.o.CloudID,
		User:     me.Name,
		Projects: projects,
		Project: func(ctx context.Context, key, _ string) (reconcile.TrackerBoard, error) {
			return c.board(ctx, key)
		},
	}, nil
}

// atGateway returns a client that asks by the id of the site, as a token with scopes needs it, and
// the account of the token. The account is nil if the token is not accepted there either.
func (c *client) atGateway(ctx context.Context) (*client, *account) {
	a, err := c.api.Send(ctx, transport.Request{
		Method: http.MethodGet,
		To:     c.site + "/_edge/tenant_info",
		Limit:  64 << 10,
	})
	var tenant struct {
		CloudID string `json:"cloudId"`
	}
	if err != nil || json.Unmarshal(a.Body, &tenant) != nil || !isCloudID(tenant.CloudID) {
		return nil, nil
	}
	o := c.o
	o.Endpoint = c.site
	o.CloudID = tenant.CloudID
	gated, err := connect(o)
	if err != nil {
		return nil, nil // the refusal by the site is reported
	}
	me, err := gated.whoami(ctx)
	if err != nil {
		return nil, nil // the refusal by the site is reported
	}
	return gated, &me
}

// projects are the projects that the account sees, the most recently changed first.
func (c *client) projects(ctx context.Context) ([]reconcile.TrackerProject, error) {
	var list []reconcile.TrackerProject
	for len(list) < mostProjects {
		found, err := get[struct {
			Values []project `json:"values"`
			Last   bool      `json:"isLast"`
		}](ctx, c, "/project/search", url.Values{
			"orderBy": {"-lastIssueUpdatedDate"},
			"startAt": {strconv.Itoa(len(list))},
		})
		if err != nil {
			return nil, err
		}
		list = append(list, text.Map(found.Values, c.asProject)...)
		if found.Last || len(found.Values) == 0 {
			break
		}
	}
	return list, nil
}

// board describes a project, which is named by its key or its address, for init.
func (c *client) board(ctx context.Context, name string) (reconcile.TrackerBoard, error) {
	key := strings.TrimRight(strings.TrimSpace(name), "/")
	for _, below := range []string{"/browse/", "/projects/"} {
		if _, after, found := strings.Cut(key, below); found {
			key, _, _ = strings.Cut(after, "/")
			key, _, _ = strings.Cut(key, "-") // of an issue
		}
	}
	o := c.o
	o.Endpoint = c.site
	o.Project = key
	at, err := connect(o)
	if err != nil {
		return reconcile.TrackerBoard{}, err
	}
	if !isProjectKey(at.o.Project) {
		return reconcile.TrackerBoard{}, at.noProject()
	}
	p, err := at.project(ctx)
	if err != nil {
		return reconcile.TrackerBoard{}, err
	}
	statuses, err := at.statuses(ctx)
	if err != nil {
		return reconcile.TrackerBoard{}, err
	}
	board := reconcile.TrackerBoard{
		TrackerProject: at.asProject(p),
		Setting:        p.Key,
		HasLabel:       true, // a label exists as soon as an issue has it
	}
	order := []string{"new", "indeterminate", "done"}
	slices.SortStableFunc(statuses, func(a, b status) int {
		return slices.Index(order, a.Category.Key) - slices.Index(order, b.Category.Key)
	})
	for _, s := range statuses {
		kind := kinds[s.Category.Key]
		if strings.EqualFold(s.Name, "Backlog") { // what is there is not planned yet
			kind = ""
		}
		if _, has := board.State(s.Name); !has {
			board.States = append(board.States, reconcile.TrackerState{Name: s.Name, Kind: kind})
		}
	}
	return board, nil
}
