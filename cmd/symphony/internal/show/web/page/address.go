package page

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// IssueAddress is the path of an issue's page.
func IssueAddress(project, identifier string) string {
	return "/issues/" + url.PathEscape(project) + "/" + url.PathEscape(identifier)
}

// address is a path with a query of keys and their values. The last value of a key counts; an
// empty value leaves the key out.
func address(path string, pairs ...string) string {
	q := url.Values{}
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] == "" {
			q.Del(pair[0])
			continue
		}
		q.Set(pair[0], pair[1])
	}
	return strings.TrimSuffix(path+"?"+q.Encode(), "?")
}

// rowNumber is the number of a row in an address, empty for the first row.
func rowNumber(n int) string { return strings.TrimPrefix(strconv.Itoa(n), "0") }

// ofWeb returns an address of the web, and nothing for any other.
func ofWeb(address string) string {
	if strings.HasPrefix(address, "https://") || strings.HasPrefix(address, "http://") {
		return address
	}
	return ""
}
