package linear

import (
	"net/url"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/reconcile"
)

// ProjectSlug is the slug id that a value of tracker.project_slug stands for: the value itself, or, of a
// project's URL, the last part of the project's segment. An empty value or a URL of something else is an error.
func ProjectSlug(value string) (string, error) {
	slugs, err := projectSlugs(value)
	if err != nil {
		return "", err
	}
	return slugs[0], nil
}

// projectSlugs lists what the slug id may be, the most likely first. A value such as "web-1a2b3c4d5e6f" is
// ambiguous: it may be what the tracker calls the slug id, or the segment of the URL, whose last part is it.
func projectSlugs(value string) ([]string, error) {
	value = strings.TrimSpace(value)
	if value == "" {
		return nil, &reconcile.Error{
			Code: "missing_tracker_project_slug", Message: "tracker.project_slug is empty",
			Hint: "set it to the project's URL or to the id at the end of it",
		}
	}
	if !strings.Contains(value, "://") {
		if tail, ok := slugTail(value); ok {
			return []string{value, tail}, nil
		}
		return []string{value}, nil
	}
	segment, ok := projectSegment(value)
	if !ok {
		return nil, &reconcile.Error{
			Code: "missing_tracker_project_slug", Message: "tracker.project_slug is a URL, but not one of a project",
			Hint: "it looks like https://linear.app/TEAM/project/NAME-0123456789ab",
		}
	}
	if i := strings.LastIndexByte(segment, '-'); i >= 0 && i+1 < len(segment) {
		return []string{segment[i+1:], segment}, nil
	}
	return []string{segment}, nil
}

// ours reports whether a slug id is that of the client's project, as far as its spelling is settled.
func (c *Client) ours(slug string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.slugs, slug)
}

func projectSegment(value string) (string, bool) {
	u, err := url.Parse(value)
	if err != nil {
		return "", false
	}
	parts := strings.Split(strings.Trim(u.Path, "/"), "/")
	for i, p := range parts {
		if (p == "project" || p == "projects") && i+1 < len(parts) && parts[i+1] != "" {
			return parts[i+1], true
		}
	}
	return "", false
}

// slugTail is the last part of a URL segment, if it looks like one of Linear's slug ids.
func slugTail(value string) (string, bool) {
	i := strings.LastIndexByte(value, '-')
	tail := value[i+1:]
	if i <= 0 || len(tail) != 12 || strings.Trim(tail, "0123456789abcdef") != "" {
		return "", false
	}
	return tail, true
}
