package github

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/symphony-cron/symphony/tracker/github/githubtest"
)

type shim struct {
	s    *githubtest.Server
	sent []string
}

func (x *shim) issue(i githubtest.Issue) any {
	labels, users, comments, blocked := []any{}, []any{}, []any{}, []any{}
	for _, l := range i.Labels {
		labels = append(labels, map[string]any{"name": l})
	}
	for _, l := range i.Assignees {
		users = append(users, map[string]any{"login": l})
	}
	if n := len(i.Comments); n > 0 {
		comments = append(comments, map[string]any{"createdAt": i.Comments[n-1].CreatedAt})
	}
	for _, ref := range i.BlockedBy {
		b, err := x.s.Issue(ref)
		if err != nil {
			continue
		}
		blocked = append(blocked, map[string]any{"number": b.Number, "state": strings.ToUpper(b.State), "repository": map[string]any{"nameWithOwner": b.Repository}})
	}
	return map[string]any{
		"id": fmt.Sprint("I_kwDO", i.ID), "fullDatabaseId": fmt.Sprint(i.ID), "number": i.Number, "title": i.Title, "body": i.Body,
		"url": fmt.Sprint("https://github.com/", i.Repository, "/issues/", i.Number), "state": strings.ToUpper(i.State), "createdAt": i.CreatedAt,
		"updatedAt": i.UpdatedAt, "assignees": map[string]any{"nodes": users}, "labels": map[string]any{"nodes": labels},
		"comments": map[string]any{"nodes": comments}, "blockedBy": map[string]any{"nodes": blocked},
	}
}

var (
	repoRe  = regexp.MustCompile(`r(\d+): repository\(owner: \$(\w+), name: \$(\w+)\)`)
	issueRe = regexp.MustCompile(`i(\d+): issue\(number: (\d+)\)`)
)

func (x *shim) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path != "/graphql" {
		return http.DefaultTransport.RoundTrip(r)
	}
	body, _ := io.ReadAll(r.Body)
	x.sent = append(x.sent, string(body))
	var in struct {
		Query     string
		Variables map[string]any
	}
	_ = json.Unmarshal(body, &in)
	data := map[string]any{"viewer": map[string]any{"login": "ann"}}
	var errs []any
	str := func(n string) string { s, _ := in.Variables[n].(string); return s }
	switch {
	case strings.Contains(in.Query, "SymphonyNumbers"):
		var repo map[string]any
		var name, alias string
		for _, line := range strings.Split(in.Query, "\n") {
			if m := repoRe.FindStringSubmatch(line); m != nil {
				alias, name = "r"+m[1], str(m[2])+"/"+str(m[3])
				repo = map[string]any{"nameWithOwner": name}
				data[alias] = repo
			}
			if m := issueRe.FindStringSubmatch(line); m != nil {
				n, _ := strconv.Atoi(m[2])
				i, err := x.s.Issue(name + "#" + m[2])
				if err != nil || i.Pull {
					repo["i"+m[1]] = nil
					errs = append(errs, map[string]any{"type": "NOT_FOUND", "path": []any{alias, "i" + m[1]}, "message": fmt.Sprint("Could not resolve to an Issue with the number of ", n)})
					continue
				}
				repo["i"+m[1]] = x.issue(i)
			}
		}
	case strings.Contains(in.Query, "SymphonyIssues"):
		name := str("owner") + "/" + str("name")
		var all []githubtest.Issue
		since, _ := time.Parse(time.RFC3339, str("since"))
		for _, i := range x.s.Issues() {
			if i.Repository == name && (in.Variables["states"] == nil || i.State == "open") && !i.UpdatedAt.Before(since) {
				all = append(all, i)
			}
		}
		sort.SliceStable(all, func(a, b int) bool { return all[a].UpdatedAt.Before(all[b].UpdatedAt) })
		from, _ := strconv.Atoi(str("after"))
		to := min(len(all), from+100)
		list := []any{}
		for _, i := range all[from:to] {
			list = append(list, x.issue(i))
		}
		data["repository"] = map[string]any{"nameWithOwner": name, "issues": map[string]any{
			"nodes": list, "pageInfo": map[string]any{"hasNextPage": to < len(all), "endCursor": fmt.Sprint(to)},
		}}
	}
	out, _ := json.Marshal(map[string]any{"data": data, "errors": errs})
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(out)), Request: r}, nil
}
