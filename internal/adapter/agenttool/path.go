package agenttool

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// SplitPath returns the decoded parts of a path, which must begin with a slash: beginning says
// how, such as "with /repos/OWNER/NAME". It refuses a path that two programs may understand in
// different ways, such as /repos/acme/app/issues/%2e%2e/hooks. query is the argument for a query.
func SplitPath(path, beginning, query string) ([]string, error) {
	if strings.ContainsAny(path, "?#") {
		return nil, Refusal(
			"path_refused",
			"path must not contain ? or #: put the query into "+query,
		)
	}
	if !strings.HasPrefix(path, "/") {
		return nil, Refusal(
			"path_refused",
			"path must begin "+beginning+", without a host",
		)
	}
	parts := strings.Split(path[1:], "/")
	for i, part := range parts {
		decoded, err := url.PathUnescape(part)
		if err != nil || isAmbiguous(decoded) {
			return nil, Refusal(
				"path_refused",
				"the part "+strconv.Quote(part)+" of the path is empty, a dot or two, or has a backslash, "+
					"a control character or a wrong or double escape",
			)
		}
		parts[i] = decoded
	}
	return parts, nil
}

// isAmbiguous reports whether two programs may understand a decoded part of a path
// differently.
func isAmbiguous(part string) bool {
	again, err := url.PathUnescape(part)
	if err == nil && again != part { // it was escaped twice
		return true
	}
	isOdd := func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' }
	isDots := func(s string) bool { return s == "" || s == "." || s == ".." }
	return strings.ContainsFunc(part, isOdd) || slices.ContainsFunc(strings.Split(part, "/"), isDots)
}
